-- How far bulk actions of operators have come: docs/operations.md#bulk-actions. Nothing else changes, so that
-- code of version 6 goes on working.

-- +goose Up

CREATE TABLE {bulks} (
    token      text   COLLATE "C" NOT NULL PRIMARY KEY,
    version    bigint NOT NULL, -- raised by each change
    begun_at   bigint NOT NULL,
    changed_at bigint NOT NULL,
    detail     text   NOT NULL -- JSON
);

-- The batches of an action, some in each part, and what was not done to them.
CREATE TABLE {bulk_parts} (
    token    text   COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    detail   text   NOT NULL, -- JSON
    PRIMARY KEY (token, position)
);

-- +goose Down
DROP TABLE {bulk_parts};
DROP TABLE {bulks};
