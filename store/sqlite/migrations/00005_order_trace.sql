-- The trace context of whoever added an order: docs/operations.md#traces. Nothing else changes, so that
-- code of version 4 goes on working: its orders have none.

-- +goose Up
ALTER TABLE orders ADD COLUMN trace_parent TEXT CHECK (length(trace_parent) = 55); -- NULL: none

-- +goose Down
ALTER TABLE orders DROP COLUMN trace_parent;
