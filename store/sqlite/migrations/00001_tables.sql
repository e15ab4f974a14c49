-- Names are those of docs/glossary.md#tables-and-columns. Times are microseconds since
-- 1970 in UTC on the database's clock; 0 is no time. docs/migrations.md says what a later
-- migration must be like.
--
-- Names of tables and indexes begin with dltbatch_, because the application's tables may be in
-- the same file. Comments leave the prefix out.

-- +goose Up

-- What never changes. seq names a batch inside this database and is never used again, so
-- that what was found out about a batch that retention removed is not taken for another's.
-- created_at is the batch's place in its lane, unique there, because adds are serial and
-- each takes at least the lane's last + 1.
CREATE TABLE dltbatch_batches (
    seq               INTEGER PRIMARY KEY AUTOINCREMENT,
    id_hash           BLOB    NOT NULL, -- the first 6 bytes of header_signature, and 10 of its SHA-256
    header_signature  TEXT    NOT NULL,
    service_id        TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    data_change_id    TEXT    NOT NULL,
    signer_public_key TEXT    NOT NULL,
    trace             INTEGER NOT NULL,
    payload_hash      BLOB    NOT NULL, -- SHA-256 of serialized_batch
    budget_attempts   INTEGER NOT NULL,
    budget_every_try  INTEGER NOT NULL,
    footprint         BLOB,             -- NULL: nothing declared
    -- The trace context of the caller that added it: docs/operations.md#traces. NULL: none.
    trace_parent      TEXT CHECK (length(trace_parent) = 55),
    tags              TEXT              -- JSON, as batch_tags has them. NULL: none
) STRICT;

-- Holds an id to one row, as it does two ids of one hash, and finds an id by its
-- beginning, too. An index of the ids themselves
-- is six times as large, and each batch that is added changes a page of it at random.
CREATE UNIQUE INDEX dltbatch_batches_id ON dltbatch_batches (id_hash);
-- Add reads the end of a lane here, and List a lane in order.
CREATE UNIQUE INDEX dltbatch_batches_lane ON dltbatch_batches (service_id, created_at);
-- The caller's own key, unique in its lane. It is first, so that people find it, or its
-- beginning, in all lanes.
CREATE UNIQUE INDEX dltbatch_batches_change ON dltbatch_batches (data_change_id, service_id) WHERE data_change_id <> '';
-- Add reads the last order key here; List lists all lanes in order.
CREATE INDEX dltbatch_batches_created ON dltbatch_batches (created_at);

-- The payload is in a table of its own, so that no other reading passes over it.
CREATE TABLE dltbatch_batch_payloads (
    seq              INTEGER PRIMARY KEY REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    serialized_batch BLOB    NOT NULL
) STRICT;

-- The transactions of a batch, as its caller declared them.
CREATE TABLE dltbatch_transactions (
    batch_seq         INTEGER NOT NULL REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    position          INTEGER NOT NULL,
    header_signature  TEXT    NOT NULL,
    family_name       TEXT    NOT NULL,
    family_version    TEXT    NOT NULL,
    signer_public_key TEXT    NOT NULL,
    PRIMARY KEY (batch_seq, position)
) STRICT, WITHOUT ROWID;

-- The tags of batches that have some, so that people find a batch by what the application
-- calls it. created_at is the batch's.
CREATE TABLE dltbatch_batch_tags (
    batch_seq  INTEGER NOT NULL REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (batch_seq, name)
) STRICT, WITHOUT ROWID;

-- List follows these, in order: a tag, and a value under any name.
CREATE INDEX dltbatch_batch_tags_tag ON dltbatch_batch_tags (name, value, created_at);
CREATE INDEX dltbatch_batch_tags_value ON dltbatch_batch_tags (value, created_at);

-- What changes, of open batches only.
CREATE TABLE dltbatch_open_batches (
    seq                      INTEGER PRIMARY KEY REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    service_id               TEXT    NOT NULL,
    created_at               INTEGER NOT NULL,
    state                    INTEGER NOT NULL,
    version                  INTEGER NOT NULL,
    attempt                  INTEGER NOT NULL DEFAULT 0,
    spent                    INTEGER NOT NULL DEFAULT 0,
    failures                 INTEGER NOT NULL DEFAULT 0,
    claim_expires            INTEGER NOT NULL DEFAULT 0,
    not_before               INTEGER NOT NULL DEFAULT 0,
    next_check               INTEGER NOT NULL DEFAULT 0,
    due_at                   INTEGER, -- when the monitor asks; NULL: never
    asked_at                 INTEGER NOT NULL DEFAULT 0,
    last_post                INTEGER NOT NULL DEFAULT 0,
    settles_at               INTEGER NOT NULL DEFAULT 0,
    doubt_attempt            INTEGER NOT NULL DEFAULT 0,
    doubt_since              INTEGER NOT NULL DEFAULT 0,
    resend_until             INTEGER NOT NULL DEFAULT 0,
    resends                  INTEGER NOT NULL DEFAULT 0,
    refused                  INTEGER NOT NULL DEFAULT 0,
    requeued                 INTEGER NOT NULL DEFAULT 0,
    submission_error         TEXT,    -- NULL: none
    submission_error_message TEXT    NOT NULL DEFAULT '',
    decision                 TEXT    NOT NULL DEFAULT '',
    receipts                 INTEGER NOT NULL DEFAULT 0, -- how many transaction_receipts there are
    prepared                 BLOB    NOT NULL DEFAULT x'', -- by the client before the POST
    claimed_by               TEXT    NOT NULL DEFAULT '', -- the instance of the last claim
    claim_ttl                INTEGER NOT NULL DEFAULT 0,  -- of the last claim, in microseconds
    moved_at                 INTEGER NOT NULL DEFAULT 0,  -- when it last moved towards its end; 0: never
    rollbacks                INTEGER NOT NULL DEFAULT 0,  -- executions that the ledger took back
    seen_attempt             INTEGER NOT NULL DEFAULT 0,  -- that an endpoint has shown
    seen_endpoint            TEXT    NOT NULL DEFAULT '', -- which one that was
    withdrawn                INTEGER NOT NULL DEFAULT 0  -- a person has withdrawn it
) STRICT;

-- The front of each lane, and the list of lanes.
CREATE INDEX dltbatch_open_batches_lane ON dltbatch_open_batches (service_id, created_at);
-- What a claim must see of a lane, wherever it stands.
CREATE INDEX dltbatch_open_batches_attempted ON dltbatch_open_batches (service_id, created_at) WHERE attempt > 0;
-- What the monitor asks about; as large as what is in flight.
CREATE INDEX dltbatch_open_batches_due ON dltbatch_open_batches (due_at) WHERE due_at IS NOT NULL;

-- Written once, when a batch becomes final.
CREATE TABLE dltbatch_outcomes (
    seq                      INTEGER PRIMARY KEY REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    state                    INTEGER NOT NULL,
    version                  INTEGER NOT NULL,
    attempt                  INTEGER NOT NULL,
    spent                    INTEGER NOT NULL,
    failures                 INTEGER NOT NULL,
    asked_at                 INTEGER NOT NULL,
    last_post                INTEGER NOT NULL,
    settles_at               INTEGER NOT NULL,
    final_at                 INTEGER NOT NULL,
    requeued                 INTEGER NOT NULL,
    submission_error         TEXT,
    submission_error_message TEXT    NOT NULL,
    receipts                 INTEGER NOT NULL,
    orders_settled           INTEGER NOT NULL DEFAULT 0, -- its orders go their own ways
    quarantined              INTEGER NOT NULL DEFAULT 0  -- a policy set it aside: it is kept
) STRICT;

-- Prune looks here, oldest first; and batches in quarantine are listed and counted.
CREATE INDEX dltbatch_outcomes_final ON dltbatch_outcomes (final_at) WHERE quarantined = 0;
CREATE INDEX dltbatch_outcomes_quarantined ON dltbatch_outcomes (seq) WHERE quarantined = 1;

-- The ledger's answers about single transactions.
CREATE TABLE dltbatch_transaction_receipts (
    id             INTEGER PRIMARY KEY,
    batch_seq      INTEGER NOT NULL REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    position       INTEGER NOT NULL,
    transaction_id TEXT    NOT NULL,
    result_valid   INTEGER NOT NULL,
    error_message  TEXT    NOT NULL,
    error_data     BLOB,
    UNIQUE (batch_seq, position)
) STRICT;

-- What operators did to batches: a list with a bound for each.
CREATE TABLE dltbatch_batch_acts (
    batch_seq  INTEGER NOT NULL REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    action     TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    from_state INTEGER NOT NULL,
    to_state   INTEGER NOT NULL,
    PRIMARY KEY (batch_seq, position)
) STRICT, WITHOUT ROWID;

-- The history of all batches, newest first: docs/operations.md#the-history.
CREATE INDEX dltbatch_batch_acts_at ON dltbatch_batch_acts (at, batch_seq, position);

-- What is kept of a batch's attempts: a list with a bound for each.
CREATE TABLE dltbatch_attempts (
    batch_seq   INTEGER NOT NULL REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    kind        TEXT    NOT NULL, -- '': accepted
    status_code INTEGER NOT NULL,
    code        INTEGER NOT NULL,
    endpoint    TEXT    NOT NULL,
    took        INTEGER NOT NULL, -- microseconds
    answer      TEXT    NOT NULL,
    instance    TEXT    NOT NULL,
    PRIMARY KEY (batch_seq, position)
) STRICT, WITHOUT ROWID;

-- What holds lanes, or everything (then service_id is empty): where anything does.
CREATE TABLE dltbatch_controls (
    everything    INTEGER NOT NULL,
    service_id    TEXT    NOT NULL,
    paused_at     INTEGER NOT NULL,
    paused_by     TEXT    NOT NULL,
    paused_reason TEXT    NOT NULL,
    policy        INTEGER NOT NULL,
    halted_at     INTEGER NOT NULL,
    halted_by     TEXT    NOT NULL, -- a batch
    halt_reason   TEXT    NOT NULL,
    version       INTEGER NOT NULL, -- raised by each change; 0: nothing was ever set
    PRIMARY KEY (everything, service_id)
) STRICT, WITHOUT ROWID;

-- What operators did to lanes: a list with a bound for each.
CREATE TABLE dltbatch_lane_acts (
    everything INTEGER NOT NULL,
    service_id TEXT    NOT NULL,
    position   INTEGER NOT NULL,
    action     TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    batch      TEXT    NOT NULL, -- that had halted the lane
    policy     INTEGER NOT NULL,
    PRIMARY KEY (everything, service_id, position)
) STRICT, WITHOUT ROWID;

-- The history of all lanes, and what Prune removes of it.
CREATE INDEX dltbatch_lane_acts_at ON dltbatch_lane_acts (at);

-- What is kept of batches that retention removed: docs/design.md#retention.
CREATE TABLE dltbatch_tombstones (
    header_signature         TEXT    PRIMARY KEY,
    service_id               TEXT    NOT NULL,
    payload_hash             BLOB    NOT NULL,
    pruned_at                INTEGER NOT NULL,
    data_change_id           TEXT    NOT NULL,
    created_at               INTEGER NOT NULL,
    state                    INTEGER NOT NULL,
    version                  INTEGER NOT NULL,
    attempt                  INTEGER NOT NULL,
    final_at                 INTEGER NOT NULL,
    submission_error         TEXT,    -- NULL: none
    submission_error_message TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- The caller's own key, as in batches.
CREATE UNIQUE INDEX dltbatch_tombstones_change ON dltbatch_tombstones (data_change_id, service_id) WHERE data_change_id <> '';

-- Auto-batching. What never changes of an order; created_at is its place among those
-- of its party, as a batch's in its lane.
CREATE TABLE dltbatch_orders (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id        TEXT    NOT NULL UNIQUE,
    party           TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    idempotency_key TEXT    NOT NULL,
    priority        INTEGER NOT NULL,
    urgent          INTEGER NOT NULL,
    deadline        INTEGER NOT NULL,
    payload_hash    BLOB    NOT NULL, -- SHA-256
    trace_parent    TEXT    CHECK (length(trace_parent) = 55) -- of whoever added it; NULL: none
) STRICT;

-- AddOrders reads the end of a party here, and ListOrders a party, or all of them, in order.
CREATE UNIQUE INDEX dltbatch_orders_party ON dltbatch_orders (party, created_at);
-- The caller's own key, as in batches.
CREATE UNIQUE INDEX dltbatch_orders_key ON dltbatch_orders (idempotency_key, party) WHERE idempotency_key <> '';
CREATE INDEX dltbatch_orders_created ON dltbatch_orders (created_at);

-- The payload is in a table of its own, as a batch's.
CREATE TABLE dltbatch_order_payloads (
    seq     INTEGER PRIMARY KEY REFERENCES dltbatch_orders (seq) ON DELETE CASCADE,
    payload BLOB    NOT NULL
) STRICT;

-- What changes, of orders that are Queued (1) or Dequeued (2), and beside it what the
-- queue is ordered and counted by.
CREATE TABLE dltbatch_open_orders (
    seq         INTEGER PRIMARY KEY REFERENCES dltbatch_orders (seq) ON DELETE CASCADE,
    party       TEXT    NOT NULL,
    priority    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    urgent      INTEGER NOT NULL,
    size        INTEGER NOT NULL, -- of the payload, in bytes
    state       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    batch       TEXT    NOT NULL DEFAULT '', -- that it is part of, or was last
    place       INTEGER NOT NULL DEFAULT 0,  -- in that batch
    batches     INTEGER NOT NULL DEFAULT 0,
    split_group TEXT    NOT NULL DEFAULT ''
) STRICT;

-- The front of each party's queue; the parties and their oldest orders.
CREATE INDEX dltbatch_open_orders_queue ON dltbatch_open_orders (party, priority DESC, created_at) WHERE state = 1;
CREATE INDEX dltbatch_open_orders_age ON dltbatch_open_orders (party, created_at) WHERE state = 1;
-- As large as what was refused and is tried in parts, what has a deadline, and what was
-- ever part of a batch.
CREATE INDEX dltbatch_open_orders_split ON dltbatch_open_orders (party) WHERE state = 1 AND split_group <> '';
CREATE INDEX dltbatch_open_orders_deadline ON dltbatch_open_orders (deadline) WHERE state = 1 AND deadline <> 0;
CREATE INDEX dltbatch_open_orders_batch ON dltbatch_open_orders (batch) WHERE batch <> '';

-- Written once, when an order becomes final.
CREATE TABLE dltbatch_final_orders (
    seq           INTEGER PRIMARY KEY REFERENCES dltbatch_orders (seq) ON DELETE CASCADE,
    state         INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    batch         TEXT    NOT NULL,
    place         INTEGER NOT NULL,
    batches       INTEGER NOT NULL,
    split_group   TEXT    NOT NULL,
    final_at      INTEGER NOT NULL,
    error         TEXT,    -- NULL: none
    error_message TEXT    NOT NULL
) STRICT;

-- Prune looks here, oldest first; and the orders of a batch are found by it.
CREATE INDEX dltbatch_final_orders_final ON dltbatch_final_orders (final_at);
-- How many were refused (state 5) of late is counted here.
CREATE INDEX dltbatch_final_orders_refused ON dltbatch_final_orders (final_at) WHERE state = 5;
CREATE INDEX dltbatch_final_orders_batch ON dltbatch_final_orders (batch) WHERE batch <> '';

-- Batches of orders that are not settled: one for each party at most.
CREATE TABLE dltbatch_unsettled_batches (
    batch_seq INTEGER PRIMARY KEY REFERENCES dltbatch_batches (seq) ON DELETE CASCADE,
    party     TEXT    NOT NULL UNIQUE
) STRICT;

-- What was seen of ledgers' streams of events. The span without a gap is from since to
-- until_; 0 is none.
CREATE TABLE dltbatch_streams (
    stream        TEXT    PRIMARY KEY,
    holder        TEXT    NOT NULL,
    epoch         INTEGER NOT NULL,
    lease_expires INTEGER NOT NULL,
    since         INTEGER NOT NULL,
    until_        INTEGER NOT NULL,
    cursor        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- The ids that were seen in a stream.
CREATE TABLE dltbatch_stream_ids (
    stream TEXT    NOT NULL,
    id     TEXT    NOT NULL,
    at     INTEGER NOT NULL, -- when it was written down
    PRIMARY KEY (stream, id)
) STRICT, WITHOUT ROWID;

-- Prune looks here.
CREATE INDEX dltbatch_stream_ids_at ON dltbatch_stream_ids (at);

-- Small texts: store.TextKind lists them.
CREATE TABLE dltbatch_texts (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL, -- raised by each change
    begun_at   INTEGER NOT NULL, -- when it was first written
    changed_at INTEGER NOT NULL, -- and last
    body       TEXT    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
