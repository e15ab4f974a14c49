-- How a batch ended that retention removed, and the caller's own key (docs/design.md#retention). Of batches
-- that were removed before, state 0 says that nobody knows. Nothing else changes, so that code of version 7
-- goes on working: its tombstones have state 0, too.

-- +goose Up

-- Adds wait for this, and a transaction that stays open must not have everybody wait behind it.
SET LOCAL lock_timeout = '1s';
ALTER TABLE {tombstones}
    ADD COLUMN data_change_id           text     COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN created_at               bigint   NOT NULL DEFAULT 0,
    ADD COLUMN state                    smallint NOT NULL DEFAULT 0,
    ADD COLUMN version                  bigint   NOT NULL DEFAULT 0,
    ADD COLUMN attempt                  bigint   NOT NULL DEFAULT 0,
    ADD COLUMN final_at                 bigint   NOT NULL DEFAULT 0,
    ADD COLUMN submission_error         text,    -- NULL: none
    ADD COLUMN submission_error_message text     NOT NULL DEFAULT '';
CREATE UNIQUE INDEX {.tombstones_change} ON {tombstones} (service_id, data_change_id) WHERE data_change_id <> '';

-- +goose Down
-- The index goes with its column.
ALTER TABLE {tombstones}
    DROP COLUMN submission_error_message,
    DROP COLUMN submission_error,
    DROP COLUMN final_at,
    DROP COLUMN attempt,
    DROP COLUMN version,
    DROP COLUMN state,
    DROP COLUMN created_at,
    DROP COLUMN data_change_id;
