-- Counts of what is open, and the instances that work on it: docs/design.md#counting-what-is-open.
-- Nothing else changes, so that code of version 3 goes on working.

-- +goose Up

-- One row, or none before the first count: the counts, and whose turn it is to count.
CREATE TABLE {stats} (
    id         smallint NOT NULL PRIMARY KEY CHECK (id = 1),
    turn       bigint   NOT NULL, -- raised by each process that begins to count
    at         bigint   NOT NULL, -- as of when the counts are
    rest_until bigint   NOT NULL, -- nobody counts before
    totals     text     NOT NULL  -- JSON; empty: somebody counts for the first time
) WITH (fillfactor = 50);

CREATE TABLE {instances} (
    id     text   COLLATE "C" NOT NULL PRIMARY KEY,
    name   text   COLLATE "C" NOT NULL,
    since  bigint NOT NULL,
    seen   bigint NOT NULL,
    detail text   NOT NULL -- JSON
) WITH (
    -- Each row changes every 15 s, within its page.
    fillfactor = 50,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0
);

-- +goose Down
DROP TABLE {instances};
DROP TABLE {stats};
