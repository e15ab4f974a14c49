-- What operators do: how far bulk actions have come (docs/operations.md#bulk-actions), the newest acts first
-- of all batches (docs/operations.md#the-history), and texts that one process makes for all
-- (docs/design.md#counting-what-is-open). Nothing else changes, so that code of version 5 goes on working.

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

CREATE INDEX batch_acts_at ON batch_acts (at, batch_seq, position);

CREATE TABLE summaries (
    name       TEXT    PRIMARY KEY,
    turn       INTEGER NOT NULL, -- raised by each process that begins to make it
    at         INTEGER NOT NULL, -- as of when it is
    rest_until INTEGER NOT NULL, -- nobody makes it before
    detail     TEXT    NOT NULL  -- JSON; empty: nobody has made it yet
) STRICT;

-- +goose Down
DROP TABLE summaries;
DROP INDEX batch_acts_at;
DROP TABLE bulk_parts;
DROP TABLE bulks;
