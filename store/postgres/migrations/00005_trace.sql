-- The trace context of the caller that added a batch: docs/operations.md#traces. Nothing else changes, so
-- that code of version 4 goes on working: its batches have none.

-- +goose Up

-- Adds wait for this, and a transaction that stays open must not have everybody wait behind it.
SET LOCAL lock_timeout = '1s';
ALTER TABLE {batches} ADD COLUMN trace_parent text; -- NULL: none
-- NOT VALID, so that nobody waits while all rows are read: none has a context yet.
ALTER TABLE {batches} ADD CONSTRAINT {.batches_trace} CHECK (octet_length(trace_parent) = 55) NOT VALID;

-- +goose Down
ALTER TABLE {batches} DROP COLUMN trace_parent;
