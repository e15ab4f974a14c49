-- The trace context of the caller that added a batch: docs/operations.md#traces. Nothing else changes, so
-- that code of version 3 goes on working: its batches have none.

-- +goose Up
ALTER TABLE batches ADD COLUMN trace_parent TEXT CHECK (length(trace_parent) = 55); -- NULL: none

-- +goose Down
ALTER TABLE batches DROP COLUMN trace_parent;
