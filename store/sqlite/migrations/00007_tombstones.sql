-- How a batch ended that retention removed, and the caller's own key (docs/design.md#retention). Of batches
-- that were removed before, state 0 says that nobody knows. Nothing else changes, so that code of version 6
-- goes on working: its tombstones have state 0, too.

-- +goose Up
ALTER TABLE tombstones ADD COLUMN data_change_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tombstones ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tombstones ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tombstones ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tombstones ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tombstones ADD COLUMN final_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tombstones ADD COLUMN submission_error TEXT; -- NULL: none
ALTER TABLE tombstones ADD COLUMN submission_error_message TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX tombstones_change ON tombstones (service_id, data_change_id) WHERE data_change_id <> '';

-- +goose Down
DROP INDEX tombstones_change;
ALTER TABLE tombstones DROP COLUMN submission_error_message;
ALTER TABLE tombstones DROP COLUMN submission_error;
ALTER TABLE tombstones DROP COLUMN final_at;
ALTER TABLE tombstones DROP COLUMN attempt;
ALTER TABLE tombstones DROP COLUMN version;
ALTER TABLE tombstones DROP COLUMN state;
ALTER TABLE tombstones DROP COLUMN created_at;
ALTER TABLE tombstones DROP COLUMN data_change_id;
