-- What a claim and a control keep beside what code of version 1 knows of: that code goes
-- on working, since all of it has a default. So what it does not maintain is not trusted
-- where it may have written last: claim_ttl counts while ttl_attempt is the row's attempt,
-- seen_attempt likewise, halt_reason while version is not before halted_at.

-- +goose Up

ALTER TABLE open_batches ADD COLUMN claim_ttl     INTEGER NOT NULL DEFAULT 0;  -- of the claim of ttl_attempt, in microseconds
ALTER TABLE open_batches ADD COLUMN ttl_attempt   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE open_batches ADD COLUMN first_claimed INTEGER NOT NULL DEFAULT 0;  -- since it was added or requeued; 0: not known
ALTER TABLE open_batches ADD COLUMN rollbacks     INTEGER NOT NULL DEFAULT 0;  -- executions in a row that the ledger took back
ALTER TABLE open_batches ADD COLUMN seen_attempt  INTEGER NOT NULL DEFAULT 0;  -- that an endpoint has shown as being under way
ALTER TABLE open_batches ADD COLUMN seen_endpoint TEXT    NOT NULL DEFAULT ''; -- which one that was

ALTER TABLE controls ADD COLUMN version     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE controls ADD COLUMN halt_reason TEXT    NOT NULL DEFAULT '';

-- Which ledger serves a service, written when it is first served. Code of version 1 knows of
-- one ledger only, ledger's: what it has attempted and is not in here is that one's.
CREATE TABLE served (
    service_id TEXT NOT NULL PRIMARY KEY,
    ledger     TEXT NOT NULL
) WITHOUT ROWID;

-- What who last served under a ledger's name relied on of it, as JSON.
CREATE TABLE ledgers (
    name        TEXT    NOT NULL PRIMARY KEY,
    traits      TEXT    NOT NULL,
    recorded_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE ledgers;
DROP TABLE served;
ALTER TABLE controls DROP COLUMN halt_reason;
ALTER TABLE controls DROP COLUMN version;
ALTER TABLE open_batches DROP COLUMN seen_endpoint;
ALTER TABLE open_batches DROP COLUMN seen_attempt;
ALTER TABLE open_batches DROP COLUMN rollbacks;
ALTER TABLE open_batches DROP COLUMN first_claimed;
ALTER TABLE open_batches DROP COLUMN ttl_attempt;
ALTER TABLE open_batches DROP COLUMN claim_ttl;
