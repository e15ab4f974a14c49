-- The newest acts of operators first, of all batches; and texts that one process makes for all:
-- docs/operations.md#the-history, docs/design.md#counting-what-is-open. Nothing else changes, so that code of
-- version 6 goes on working.

-- +goose Up

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
