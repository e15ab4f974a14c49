-- How far bulk actions of operators have come: docs/operations.md#bulk-actions. Nothing else changes, so that
-- code of version 5 goes on working.

-- +goose Up

CREATE TABLE bulks (
    token      TEXT    PRIMARY KEY,
    version    INTEGER NOT NULL, -- raised by each change
    begun_at   INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    detail     TEXT    NOT NULL -- JSON
) STRICT;

-- The batches of an action, some in each part, and what was not done to them.
CREATE TABLE bulk_parts (
    token    TEXT    NOT NULL,
    position INTEGER NOT NULL,
    detail   TEXT    NOT NULL, -- JSON
    PRIMARY KEY (token, position)
) STRICT;

-- +goose Down
DROP TABLE bulk_parts;
DROP TABLE bulks;
