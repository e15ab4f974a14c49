-- What a claim and a control keep beside what code of version 1 knows of: that code goes
-- on working, since all of it has a default. So what it does not maintain is not trusted
-- where it may have written last: claim_ttl counts while ttl_attempt is the row's attempt,
-- seen_attempt likewise, halt_reason while version is not before halted_at.

-- +goose Up

-- In the order in which claims and records take them. Who gets in the way all the same
-- begins again. A transaction that stays open must not have everybody wait behind this.
SET LOCAL lock_timeout = '1s';

-- turn counts what was put back into its place in the lane, so that claims look at all of it.
ALTER TABLE {services}
    ADD COLUMN turn bigint NOT NULL DEFAULT 0;

ALTER TABLE {attempted_batches}
    ADD COLUMN written_by    smallint NOT NULL DEFAULT 1, -- the schema version that the code was made for
    ADD COLUMN claim_ttl     bigint NOT NULL DEFAULT 0,  -- of the claim of ttl_attempt, in microseconds
    ADD COLUMN ttl_attempt   bigint NOT NULL DEFAULT 0,
    ADD COLUMN first_claimed bigint NOT NULL DEFAULT 0,  -- since it was added or requeued; 0: not known
    ADD COLUMN rollbacks     bigint NOT NULL DEFAULT 0,  -- executions in a row that the ledger took back
    ADD COLUMN seen_attempt  bigint NOT NULL DEFAULT 0,  -- that an endpoint has shown as being under way
    ADD COLUMN seen_endpoint text   NOT NULL DEFAULT ''; -- which one that was

-- Which transaction made the row, whoever's code it is by: what is under way is found by it,
-- behind all that is finished. It never changes, so that updates stay in their page.
ALTER TABLE {attempted_batches} ADD COLUMN made_by bigint NOT NULL DEFAULT 0;
ALTER TABLE {attempted_batches} ALTER COLUMN made_by SET DEFAULT txid_current();
CREATE INDEX {.attempted_batches_made} ON {attempted_batches} (made_by);

ALTER TABLE {controls}
    ADD COLUMN version     bigint NOT NULL DEFAULT 0,
    ADD COLUMN halt_reason text   NOT NULL DEFAULT '';

ALTER TABLE {waiting_batches}
    ADD COLUMN written_by smallint NOT NULL DEFAULT 1;

-- Which ledger serves a service, written when it is first served. Code of version 1 knows of
-- one ledger only, {ledger}'s: what it has attempted and is not in here is that one's.
CREATE TABLE {served} (
    service_id text COLLATE "C" NOT NULL PRIMARY KEY,
    ledger     text NOT NULL
);

-- What who last served under a ledger's name relied on of it, as JSON.
CREATE TABLE {ledgers} (
    name        text COLLATE "C" NOT NULL PRIMARY KEY,
    traits      text   NOT NULL,
    recorded_at bigint NOT NULL
);

-- +goose Down
DROP TABLE {ledgers};
DROP TABLE {served};
ALTER TABLE {waiting_batches}
    DROP COLUMN written_by;
ALTER TABLE {controls}
    DROP COLUMN halt_reason,
    DROP COLUMN version;
ALTER TABLE {attempted_batches}
    DROP COLUMN seen_endpoint,
    DROP COLUMN seen_attempt,
    DROP COLUMN rollbacks,
    DROP COLUMN first_claimed,
    DROP COLUMN ttl_attempt,
    DROP COLUMN claim_ttl,
    DROP COLUMN made_by,
    DROP COLUMN written_by;
ALTER TABLE {services}
    DROP COLUMN turn;
