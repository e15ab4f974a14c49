-- The newest acts of operators first, of all batches; and texts that one process makes for all:
-- docs/operations.md#the-history, docs/design.md#counting-what-is-open. Nothing else changes, so that code of
-- version 7 goes on working.

-- +goose Up

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
