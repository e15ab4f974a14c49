-- What operators do: how far bulk actions have come (docs/operations.md#bulk-actions), the newest acts first
-- of all batches (docs/operations.md#the-history), and texts that one process makes for all
-- (docs/design.md#counting-what-is-open). Nothing else changes, so that code of version 6 goes on working.

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

CREATE INDEX {.batch_acts_at} ON {batch_acts} (at, batch_seq, position);

CREATE TABLE {summaries} (
    name       text   COLLATE "C" NOT NULL PRIMARY KEY,
    turn       bigint NOT NULL, -- raised by each process that begins to make it
    at         bigint NOT NULL, -- as of when it is
    rest_until bigint NOT NULL, -- nobody makes it before
    detail     text   NOT NULL  -- JSON; empty: nobody has made it yet
);

-- +goose Down
DROP TABLE {summaries};
DROP INDEX {batch_acts_at};
DROP TABLE {bulk_parts};
DROP TABLE {bulks};
