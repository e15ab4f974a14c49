-- The trace context of whoever added an order: docs/operations.md#traces. Nothing else changes, so that
-- code of version 5 goes on working: its orders have none.

-- +goose Up

-- Adds wait for this, and a transaction that stays open must not have everybody wait behind it.
SET LOCAL lock_timeout = '1s';
ALTER TABLE {orders} ADD COLUMN trace_parent text; -- NULL: none
-- NOT VALID, so that nobody waits while all rows are read: none has a context yet.
ALTER TABLE {orders} ADD CONSTRAINT {.orders_trace} CHECK (octet_length(trace_parent) = 55) NOT VALID;

-- +goose Down
ALTER TABLE {orders} DROP COLUMN trace_parent;
