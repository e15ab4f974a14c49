-- Names are those of docs/glossary.md#tables-and-columns. {name} stands for a table in the
-- store's schema, with its prefix, and {.name} for an index. Times are microseconds since
-- 1970 in UTC on the database's clock; 0 is no time. Ids and services are compared as
-- bytes: COLLATE "C". docs/migrations.md says what a later migration must be like.
--
-- There are no foreign keys: the check of each would lock and so rewrite the row it
-- points to, and all rows of a batch are written and removed by the same statements.

-- +goose Up

-- seq names a batch inside this schema. It says nothing about order. Calls take 1000
-- numbers at once, and what they do not need of them is not used.
CREATE SEQUENCE {batch_seq} INCREMENT BY 1000;

-- What never changes. created_at is the batch's place in its lane; ties break by
-- header_signature. By that a batch is looked up through its first 6 bytes and the first
-- 10 of its SHA-256, which an index holds in a quarter of the space, and which finds a
-- batch by the beginning of its id, too:
--   WHERE id_hash = encode(substring('...'::bytea FOR 6) || substring(sha256('...') FOR 10), 'hex')::uuid
CREATE TABLE {batches} (
    seq               bigint   NOT NULL PRIMARY KEY,
    id_hash           uuid     NOT NULL,
    header_signature  text     COLLATE "C" NOT NULL,
    service_id        text     COLLATE "C" NOT NULL,
    created_at        bigint   NOT NULL,
    data_change_id    text     COLLATE "C" NOT NULL,
    signer_public_key text     NOT NULL,
    trace             boolean  NOT NULL,
    payload_hash      bytea    NOT NULL, -- SHA-256 of serialized_batch
    budget_attempts   bigint   NOT NULL,
    budget_every_try  boolean  NOT NULL,
    footprint         bytea,             -- NULL: nothing declared
    serialized_batch  bytea    NOT NULL,
    -- The trace context of the caller that added it: docs/operations.md#traces. NULL: none.
    trace_parent      text     CHECK (octet_length(trace_parent) = 55),
    tags              text              -- JSON, as batch_tags has them. NULL: none
) WITH (
    -- Rows are only added and, much later, removed in order of age: what is left to
    -- vacuum is the visibility map, and a fifth of a large table is too late for it.
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05
);
-- Signed bytes hardly compress: do not try.
ALTER TABLE {batches} ALTER COLUMN serialized_batch SET STORAGE EXTERNAL;
-- Holds an id to one row, and finds it.
CREATE UNIQUE INDEX {.batches_id} ON {batches} (id_hash);
-- The caller's own key, unique in its lane. It is first, so that people find it, or its
-- beginning, in all lanes.
CREATE UNIQUE INDEX {.batches_change} ON {batches} (data_change_id, service_id) WHERE data_change_id <> '';
-- Add reads the end of a lane here, and List a lane in order.
CREATE INDEX {.batches_lane} ON {batches} (service_id, created_at);
-- Add reads here whether any order key is ahead of the clock; List lists all lanes in order.
CREATE INDEX {.batches_created} ON {batches} (created_at);

-- The transactions of a batch, as its caller declared them.
CREATE TABLE {transactions} (
    batch_seq         bigint  NOT NULL,
    position          integer NOT NULL,
    header_signature  text    COLLATE "C" NOT NULL,
    family_name       text    NOT NULL,
    family_version    text    NOT NULL,
    signer_public_key text    NOT NULL,
    PRIMARY KEY (batch_seq, position)
);

-- The tags of batches that have some, so that people find a batch by what the application
-- calls it. created_at is the batch's.
CREATE TABLE {batch_tags} (
    batch_seq  bigint NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    value      text   COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (batch_seq, name)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05
);
-- List follows these, in order: a tag, and a value under any name.
CREATE INDEX {.batch_tags_tag} ON {batch_tags} (name, value, created_at);
CREATE INDEX {.batch_tags_value} ON {batch_tags} (value, created_at);

-- One row for each lane that was ever claimed from. A claim holds its lock. Nothing
-- else touches it but a requeue, so that an application's open transaction holds up no claim.
CREATE TABLE {services} (
    service_id text   COLLATE "C" NOT NULL PRIMARY KEY,
    -- How often a batch was put back into its place: then claims look at the whole lane again.
    requeues   bigint NOT NULL DEFAULT 0
);

-- Open batches that were never attempted: a queue with rows as narrow as they get.
-- A first claim deletes here and inserts below, which writes less than an update
-- would that moves a row into a partial index on its attempts: that would have to
-- write into every index of the table.
CREATE TABLE {waiting_batches} (
    service_id text    COLLATE "C" NOT NULL,
    created_at bigint  NOT NULL,
    seq        bigint  NOT NULL,
    version    bigint  NOT NULL,
    requeued   boolean NOT NULL,
    PRIMARY KEY (service_id, created_at, seq)
) WITH (
    -- Claims read the front of each lane, where the deleted rows are. The part of the
    -- table's size keeps the vacuum of a long backlog's index from running all the time.
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.05
);

-- Open batches that were ever attempted: as large as what is under way. No index
-- holds a column that changes, so that all updates stay in their page (HOT).
CREATE TABLE {attempted_batches} (
    seq                      bigint   NOT NULL PRIMARY KEY,
    service_id               text     COLLATE "C" NOT NULL,
    created_at               bigint   NOT NULL,
    state                    smallint NOT NULL,
    version                  bigint   NOT NULL,
    attempt                  bigint   NOT NULL,
    spent                    bigint   NOT NULL,
    failures                 bigint   NOT NULL,
    claim_expires            bigint   NOT NULL,
    not_before               bigint   NOT NULL,
    next_check               bigint   NOT NULL,
    due_at                   bigint   NOT NULL, -- when the monitor asks; the largest bigint: never
    asked_at                 bigint   NOT NULL,
    last_post                bigint   NOT NULL,
    settles_at               bigint   NOT NULL,
    doubt_attempt            bigint   NOT NULL,
    doubt_since              bigint   NOT NULL,
    resend_until             bigint   NOT NULL,
    resends                  bigint   NOT NULL,
    refused                  boolean  NOT NULL,
    requeued                 boolean  NOT NULL,
    submission_error         text,              -- NULL: none
    submission_error_message text     NOT NULL,
    decision                 text     NOT NULL,
    receipts                 integer  NOT NULL, -- how many transaction_receipts there are
    prepared                 bytea    NOT NULL DEFAULT '', -- by the client before the POST
    claimed_by               text     NOT NULL, -- the instance of the last claim
    claim_ttl                bigint   NOT NULL, -- of the last claim, in microseconds
    moved_at                 bigint   NOT NULL, -- when it last moved towards its end; 0: never
    rollbacks                bigint   NOT NULL, -- executions in a row that the ledger took back
    seen_attempt             bigint   NOT NULL, -- that an endpoint has shown, or has taken back
    seen_endpoint            text     NOT NULL, -- which one that was
    withdrawn                boolean  NOT NULL DEFAULT false, -- a person has withdrawn it
    -- Which transaction made the row: what is under way is found by it, behind all that is
    -- finished. It never changes, so that updates stay in their page.
    made_by                  bigint   NOT NULL DEFAULT txid_current()
) WITH (
    -- Half of each page is left for the next versions of its rows.
    fillfactor = 50,
    -- It is small and all of it changes: clean it after so many rows, whatever its
    -- size, and do not dawdle.
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 2000,
    autovacuum_analyze_scale_factor = 0
);
-- What a claim must see of a lane.
CREATE INDEX {.attempted_batches_lane} ON {attempted_batches} (service_id, created_at);
-- What is under way, for the monitor.
CREATE INDEX {.attempted_batches_made} ON {attempted_batches} (made_by);

-- Written once, when a batch becomes final.
CREATE TABLE {outcomes} (
    seq                      bigint   NOT NULL PRIMARY KEY,
    state                    smallint NOT NULL,
    version                  bigint   NOT NULL,
    attempt                  bigint   NOT NULL,
    spent                    bigint   NOT NULL,
    failures                 bigint   NOT NULL,
    asked_at                 bigint   NOT NULL,
    last_post                bigint   NOT NULL,
    settles_at               bigint   NOT NULL,
    final_at                 bigint   NOT NULL,
    requeued                 boolean  NOT NULL,
    submission_error         text,
    submission_error_message text     NOT NULL,
    receipts                 integer  NOT NULL,
    orders_settled           boolean  NOT NULL DEFAULT false, -- its orders go their own ways
    quarantined              boolean  NOT NULL DEFAULT false -- a policy set it aside: it is kept
);
-- Prune looks here, oldest first; and batches in quarantine are listed and counted.
CREATE INDEX {.outcomes_final} ON {outcomes} (final_at) WHERE NOT quarantined;
CREATE INDEX {.outcomes_quarantined} ON {outcomes} (seq) WHERE quarantined;

-- The ledger's answers about single transactions.
CREATE TABLE {transaction_receipts} (
    batch_seq      bigint  NOT NULL,
    position       integer NOT NULL,
    transaction_id text    NOT NULL,
    result_valid   boolean NOT NULL,
    error_message  text    NOT NULL,
    error_data     bytea   NOT NULL,
    PRIMARY KEY (batch_seq, position)
);

-- What operators did to batches: a list with a bound for each.
CREATE TABLE {batch_acts} (
    batch_seq  bigint   NOT NULL,
    position   bigint   NOT NULL,
    action     text     NOT NULL,
    actor      text     NOT NULL,
    reason     text     NOT NULL,
    at         bigint   NOT NULL,
    from_state smallint NOT NULL,
    to_state   smallint NOT NULL,
    PRIMARY KEY (batch_seq, position)
);
-- The history of all batches, newest first: docs/operations.md#the-history.
CREATE INDEX {.batch_acts_at} ON {batch_acts} (at, batch_seq, position);

-- What is kept of a batch's attempts: a list with a bound for each.
CREATE TABLE {attempts} (
    batch_seq   bigint NOT NULL,
    position    bigint NOT NULL,
    attempt     bigint NOT NULL,
    at          bigint NOT NULL,
    kind        text   NOT NULL, -- '': accepted
    status_code bigint NOT NULL,
    code        bigint NOT NULL,
    endpoint    text   NOT NULL,
    took        bigint NOT NULL, -- microseconds
    answer      text   NOT NULL,
    instance    text   NOT NULL,
    PRIMARY KEY (batch_seq, position)
);

-- What holds lanes, or everything (then service_id is empty): where anything does.
CREATE TABLE {controls} (
    everything    boolean  NOT NULL,
    service_id    text     COLLATE "C" NOT NULL,
    paused_at     bigint   NOT NULL,
    paused_by     text     NOT NULL,
    paused_reason text     NOT NULL,
    policy        smallint NOT NULL,
    halted_at     bigint   NOT NULL,
    halted_by     text     NOT NULL, -- a batch
    halt_reason   text     NOT NULL,
    version       bigint   NOT NULL, -- raised by each change; 0: nothing was ever set
    PRIMARY KEY (everything, service_id)
);

-- What operators did to lanes: a list with a bound for each.
CREATE TABLE {lane_acts} (
    everything boolean  NOT NULL,
    service_id text     COLLATE "C" NOT NULL,
    position   bigint   NOT NULL,
    action     text     NOT NULL,
    actor      text     NOT NULL,
    reason     text     NOT NULL,
    at         bigint   NOT NULL,
    batch      text     NOT NULL, -- that had halted the lane
    policy     smallint NOT NULL,
    PRIMARY KEY (everything, service_id, position)
);
-- The history of all lanes, and what Prune removes of it.
CREATE INDEX {.lane_acts_at} ON {lane_acts} (at);

-- What is kept of batches that retention removed: docs/design.md#retention.
CREATE TABLE {tombstones} (
    id_hash                  uuid     NOT NULL PRIMARY KEY, -- as in batches
    header_signature         text     COLLATE "C" NOT NULL,
    service_id               text     COLLATE "C" NOT NULL,
    payload_hash             bytea    NOT NULL,
    pruned_at                bigint   NOT NULL,
    data_change_id           text     COLLATE "C" NOT NULL,
    created_at               bigint   NOT NULL,
    state                    smallint NOT NULL,
    version                  bigint   NOT NULL,
    attempt                  bigint   NOT NULL,
    final_at                 bigint   NOT NULL,
    submission_error         text,              -- NULL: none
    submission_error_message text     NOT NULL
);
-- The caller's own key, as in batches.
CREATE UNIQUE INDEX {.tombstones_change} ON {tombstones} (data_change_id, service_id) WHERE data_change_id <> '';

-- Auto-batching. What never changes of an order; created_at is its place among those
-- of its party, ties break by order_id.
CREATE SEQUENCE {orders_seq} INCREMENT BY 1000;

CREATE TABLE {orders} (
    seq             bigint  NOT NULL PRIMARY KEY,
    order_id        text    COLLATE "C" NOT NULL,
    party           text    COLLATE "C" NOT NULL,
    created_at      bigint  NOT NULL,
    idempotency_key text    COLLATE "C" NOT NULL,
    priority        integer NOT NULL,
    urgent          boolean NOT NULL,
    deadline        bigint  NOT NULL,
    payload_hash    bytea   NOT NULL, -- SHA-256
    payload         bytea   NOT NULL,
    -- The trace context of whoever added it; NULL: none.
    trace_parent    text    CHECK (octet_length(trace_parent) = 55)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05
);
CREATE UNIQUE INDEX {.orders_id} ON {orders} (order_id);
-- The caller's own key, as in batches.
CREATE UNIQUE INDEX {.orders_key} ON {orders} (idempotency_key, party) WHERE idempotency_key <> '';
-- AddOrders reads the end of a party here, and ListOrders a party, or all of them, in order.
CREATE INDEX {.orders_party} ON {orders} (party, created_at);
CREATE INDEX {.orders_created} ON {orders} (created_at);

-- What changes, of orders that are Queued (1) or Dequeued (2), and beside it what the
-- queue is ordered and counted by.
CREATE TABLE {open_orders} (
    seq         bigint   NOT NULL PRIMARY KEY,
    party       text     COLLATE "C" NOT NULL,
    priority    integer  NOT NULL,
    created_at  bigint   NOT NULL,
    deadline    bigint   NOT NULL,
    urgent      boolean  NOT NULL,
    size        integer  NOT NULL, -- of the payload, in bytes
    state       smallint NOT NULL,
    version     bigint   NOT NULL,
    batch       text     COLLATE "C" NOT NULL, -- that it is part of, or was last
    place       integer  NOT NULL,             -- in that batch
    batches     integer  NOT NULL,
    split_group text     NOT NULL
) WITH (
    -- As waiting_batches.
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.05
);
-- The front of each party's queue; the parties and their oldest orders.
CREATE INDEX {.open_orders_queue} ON {open_orders} (party, priority DESC, created_at) WHERE state = 1;
CREATE INDEX {.open_orders_age} ON {open_orders} (party, created_at) WHERE state = 1;
-- As large as what was refused and is tried in parts, what has a deadline, and what was
-- ever part of a batch.
CREATE INDEX {.open_orders_split} ON {open_orders} (party) WHERE state = 1 AND split_group <> '';
CREATE INDEX {.open_orders_deadline} ON {open_orders} (deadline) WHERE state = 1 AND deadline <> 0;
CREATE INDEX {.open_orders_batch} ON {open_orders} (batch) WHERE batch <> '';

-- Written once, when an order becomes final.
CREATE TABLE {final_orders} (
    seq           bigint   NOT NULL PRIMARY KEY,
    state         smallint NOT NULL,
    version       bigint   NOT NULL,
    batch         text     COLLATE "C" NOT NULL,
    place         integer  NOT NULL,
    batches       integer  NOT NULL,
    split_group   text     NOT NULL,
    final_at      bigint   NOT NULL,
    error         text,              -- NULL: none
    error_message text     NOT NULL
);
-- Prune looks here, oldest first; and the orders of a batch are found by it.
CREATE INDEX {.final_orders_final} ON {final_orders} (final_at);
-- How many were refused (state 5) of late is counted here.
CREATE INDEX {.final_orders_refused} ON {final_orders} (final_at) WHERE state = 5;
CREATE INDEX {.final_orders_batch} ON {final_orders} (batch) WHERE batch <> '';

-- Batches of orders that are not settled: one for each party at most. It is small and
-- read through.
CREATE TABLE {unsettled_batches} (
    batch_seq bigint NOT NULL PRIMARY KEY,
    party     text   COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 1000,
    autovacuum_analyze_scale_factor = 0
);
CREATE UNIQUE INDEX {.unsettled_batches_party} ON {unsettled_batches} (party);

-- What was seen of ledgers' streams of events. The span without a gap is from since to
-- until_; 0 is none.
CREATE TABLE {streams} (
    stream        text   COLLATE "C" NOT NULL PRIMARY KEY,
    holder        text   NOT NULL,
    epoch         bigint NOT NULL,
    lease_expires bigint NOT NULL,
    since         bigint NOT NULL,
    until_        bigint NOT NULL,
    cursor        text   NOT NULL
);

-- The ids that were seen in a stream.
CREATE TABLE {stream_ids} (
    stream text   COLLATE "C" NOT NULL,
    id     text   COLLATE "C" NOT NULL,
    at     bigint NOT NULL, -- when it was written down
    PRIMARY KEY (stream, id)
);
-- Prune looks here.
CREATE INDEX {.stream_ids_at} ON {stream_ids} (at);

-- Small texts: store.TextKind lists them.
CREATE TABLE {texts} (
    kind       text   COLLATE "C" NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    version    bigint NOT NULL, -- raised by each change
    begun_at   bigint NOT NULL, -- when it was first written
    changed_at bigint NOT NULL, -- and last
    body       text   NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (
    -- Each instance changes its text every 15 s, within its page.
    fillfactor = 50,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0
);
