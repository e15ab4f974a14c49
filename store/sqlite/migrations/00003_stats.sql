-- Counts of what is open, and the instances that work on it: docs/design.md#counting-what-is-open.
-- Nothing else changes, so that code of version 2 goes on working.

-- +goose Up

-- One row, or none before the first count: the counts, and whose turn it is to count.
CREATE TABLE stats (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    turn       INTEGER NOT NULL, -- raised by each process that begins to count
    at         INTEGER NOT NULL, -- as of when the counts are
    rest_until INTEGER NOT NULL, -- nobody counts before
    totals     TEXT    NOT NULL  -- JSON; empty: somebody counts for the first time
) STRICT;

CREATE TABLE instances (
    id     TEXT    NOT NULL PRIMARY KEY,
    name   TEXT    NOT NULL,
    since  INTEGER NOT NULL,
    seen   INTEGER NOT NULL,
    detail TEXT    NOT NULL -- JSON
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE instances;
DROP TABLE stats;
