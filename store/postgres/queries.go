package postgres

import "github.com/dltbatch/dltbatch/internal/sqlstore"

// These are the statements that only this driver sends, except those of migrations; package
// sqlstore has the others. {name} is a table. A test asks the planner about each statement and
// fails on a scan of a table that grows.
const (
	// sqlIncarnation is a number that stays the same while the tables are the same tables of the
	// same database on a server that was not restarted. Everything that a process remembers of the
	// database is valid for one such number. Rewriting a table, as VACUUM FULL does, also changes
	// the number, which only costs a little time. The path of a table's file contains the oid of
	// the database.
	sqlIncarnation = `(SELECT hashtextextended(concat_ws(' ', (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
		'{waiting_batches}'::regclass::oid, pg_relation_filepath('{waiting_batches}'::regclass),
		pg_relation_filepath('{attempted_batches}'::regclass), pg_relation_filepath('{services}'::regclass)), 0))`
	// serverStartSQL is the time at which the server was started, as a text. No two servers have
	// the same time.
	serverStartSQL = `extract(epoch FROM pg_postmaster_start_time())::text`
	clock          = sqlstore.Clock
	// sqlNowBrisk also bounds how long the transaction waits for a locked row: see
	// [session.recordKnown].
	sqlNowBrisk = `SELECT ` + clock + ` AS now, ` + serverStartSQL + ` AS server FROM set_config('lock_timeout', '50ms', true) s WHERE s <> ''`

	// sqlTimeout bounds how long each further statement of the transaction may take.
	sqlTimeout = `SELECT set_config('statement_timeout', $1::text, true)`

	// A beginning is one message to the server: BEGIN and settings, which end with the
	// transaction. Compilation (jit) is off, since a statement of milliseconds gains nothing from
	// it. enable_seqscan is off, because no statement here is meant to read a table from end to
	// end, and while the statistics say that a table is almost empty, the server would scan it for
	// each row to be written. array_nulls is on, since otherwise NULL in an array is a text. The
	// settings of [beginLocal] are those of package pgsettings that a store sets itself. Nothing
	// says READ WRITE, so that default_transaction_read_only is obeyed.
	//
	// All settings of a beginning are one SELECT, because a router such as PgDog refuses SET
	// together with other statements, and a driver may send the statements one by one.
	beginAny      = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT " + beginSettings
	beginLocal    = "set_config('client_encoding', 'UTF8', true), set_config('bytea_output', 'hex', true), set_config('jit', 'off', true)"
	beginSettings = beginLocal + ", set_config('enable_seqscan', 'off', true), set_config('array_nulls', 'on', true), "
	// beginRead is beginSQL for statements that only read.
	beginRead = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SELECT " + beginSettings + planAnew
	// beginSQL makes the server plan each statement anew, for the reason in the package comment.
	beginSQL = beginAny + planAnew
	planAnew = "set_config('plan_cache_mode', '" + customPlans + "', true)"
	// beginKept is for the few transactions that deliver batches, whose plans the server may keep,
	// because planning is half of the server's cost of a claim or a record of some batches. A kept
	// plan may date from when the tables were empty, so each of these statements allows only one
	// plan: it reaches a table inside of LATERAL with OFFSET 0, by the first columns of its index
	// or by its ctid, and joins no other column that an index has. Other statements follow
	// [session.planAnew]. The steps of the only plan must be enabled, because a database or a role
	// may have disabled them; if no plan is allowed, the server takes the plan that costs least
	// while the table is empty.
	beginKept = beginAny + keepPlans
	keepPlans = "set_config('enable_nestloop', 'on', true), set_config('enable_indexscan', 'on', true), set_config('enable_tidscan', 'on', true), " +
		"set_config('enable_bitmapscan', 'off', true), set_config('plan_cache_mode', '" + genericPlans + "', true)"
	// beginDeliver is beginKept for statements that only read.
	beginDeliver = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SELECT " + beginSettings + keepPlans
	// beginClaim begins a claim. A claim waits for a lock only if another transaction has locked a
	// row that it takes: see shortLockTimeout.
	beginClaim = beginKept + ", " + shortLockTimeout

	// beginAdd begins a transaction that assigns order keys. Before it reads the clock and the
	// ends of lanes, it takes a lock that others can see, and a transaction id. The statement that
	// reads them sees everything that was committed before, so the assigned keys are above any key
	// of the lane that anybody saw before. See package position.
	beginAdd   = beginSQL + "; " + takeNumber
	takeNumber = "LOCK TABLE {waiting_batches} IN ROW EXCLUSIVE MODE; SELECT txid_current()"

	// selectTxSettings selects, before the columns of package pgsettings, the isolation level and
	// plan_cache_mode. plan_cache_mode is one of three words, so it may be sent back unchanged.
	selectTxSettings = `current_setting('transaction_isolation'), current_setting('plan_cache_mode'), `

	// sqlBeforeAdd reads the facts for an Add: the clock, the last order key of each lane, numbers
	// for the batches, and the server ([session.checkServer]). While no order key of the database
	// is ahead of the clock, which is usual, it looks up no lane's last key. It also sets
	// plan_cache_mode for the next statements.
	sqlBeforeAdd = clockOnce + `
	SELECT 0 AS kind, set_config('plan_cache_mode', $3::text, true) AS service_id, t.now AS n FROM t
	UNION ALL SELECT 1, u.s, coalesce((SELECT max(b.created_at) FROM {batches} b WHERE b.service_id = u.s), 0)
		FROM unnest($1::text[]) AS u (s)
		WHERE (SELECT min(b.created_at) FROM {batches} b WHERE b.created_at >= (SELECT t.now FROM t)) IS NOT NULL
	UNION ALL SELECT 2, '', nextval('{batch_seq}') FROM generate_series(1, $2::bigint)
	UNION ALL SELECT 3, ` + serverStartSQL + `, 0`
	// sqlSerialAdd is sqlBeforeAdd for a serializable transaction. It reads no table: see
	// [session.readFacts].
	sqlSerialAdd = `SELECT 0 AS kind, set_config('plan_cache_mode', $2::text, true) AS service_id, ` + clock + ` AS n
	UNION ALL SELECT 2, '', nextval('{batch_seq}') FROM generate_series(1, $1::bigint)`
	// sqlInsertBatches takes all bytes in one value: the hash, then the footprint, then the
	// payload of each batch. Arrays of bytes are slow with every driver. The value is the last
	// argument, because drivers would copy it into a larger buffer for an argument after it.
	sqlInsertBatches = `WITH added AS (` + insertBatches + ` ON CONFLICT DO NOTHING RETURNING seq, service_id, created_at)` + insertQueued
	insertQueued     = `,
	queued AS (INSERT INTO {waiting_batches} (seq, service_id, created_at, version, requeued)
		SELECT seq, service_id, created_at, $14::bigint, false FROM added)
	SELECT seq FROM added`
	// copyBatches and copyBatchesMore insert batches by COPY: see [session.copyNew].
	copyBatches     = copyBatchesInto + `)` + copyRows
	copyBatchesMore = copyBatchesInto + `, trace_parent, tags)` + copyRows
	copyQueued      = `COPY {waiting_batches} (seq, service_id, created_at, version, requeued)` + copyRows
	copyRows        = ` FROM STDIN (FORMAT binary)`
	copyBatchesInto = `COPY {batches} (` + colsInsert
	// sqlInsertNew is for batches that are most likely not known. A known batch fails the
	// transaction. It saves a search of each unique index, and a second visit to each row.
	sqlInsertNew    = insertNewQueued + insertBatches
	insertNewQueued = `WITH queued AS (INSERT INTO {waiting_batches} (seq, service_id, created_at, version, requeued)
		SELECT u.seq, u.service_id, u.created_at, $14::bigint, false
		FROM unnest($1::bigint[], $3::text[], $4::bigint[]) AS u (seq, service_id, created_at))
	`
	insertBatches = insertInto + `)` + insertSelect + insertFrom + `)` + insertAs + `)`
	// sqlInsertMore and sqlInsertNewMore are for an Add in which a batch has a trace context or
	// tags; other Adds do not send these arguments. The arguments follow the bytes, so that all
	// other arguments keep their numbers, although a driver may then copy the bytes once more.
	sqlInsertMore    = `WITH added AS (` + insertMore + ` ON CONFLICT DO NOTHING RETURNING seq, service_id, created_at)` + insertQueued
	sqlInsertNewMore = insertNewQueued + insertMore
	insertMore       = insertInto + `, trace_parent, tags)` + insertSelect + `, nullif(u.trace_parent, ''), nullif(u.tags, '')` +
		insertFrom + `, $16::text[], $17::text[])` + insertAs + `, trace_parent, tags)`

	insertInto = `INSERT INTO {batches} (` + colsInsert
	colsInsert = `seq, id_hash, header_signature, service_id, created_at, data_change_id,
		signer_public_key, trace, budget_attempts, budget_every_try, payload_hash, footprint, serialized_batch`
	insertSelect = `
	SELECT u.seq, u.id_hash, u.id, u.service_id, u.created_at, u.change, u.signer, u.trace, u.attempts, u.every_try,
		substring($15::bytea FROM u.at FOR 32),
		CASE WHEN u.footprint > 0 THEN substring($15::bytea FROM u.at + 32 FOR u.footprint) END,
		substring($15::bytea FROM u.at + 32 + u.footprint FOR u.payload)`
	insertFrom = `
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::boolean[], $8::bigint[],
		$9::boolean[], $10::integer[], $11::integer[], $12::integer[], $13::uuid[]`
	insertAs = `
		AS u (seq, id, service_id, created_at, change, signer, trace, attempts, every_try, at, footprint, payload, id_hash`
	// The statements above and the statement below have only one possible plan, the generic plan.
	// The server makes it once, without a copy of the bytes.
	genericPlans   = "force_generic_plan"
	customPlans    = "force_custom_plan"
	sqlCustomPlans = `SELECT ` + planAnew
	// sqlShard is sent in transactions in which the server may keep plans.
	sqlShard = `SELECT t.body FROM {texts} t WHERE t.kind = 'shard' AND t.name = ''`
	// NULL restores the default of the role, the database or the server.
	sqlPlanAnew = sqlCustomPlans + `, set_config('enable_bitmapscan', NULL, true)`
	// shortLockTimeout bounds the wait for a lock, which somebody may hold for hours. Then the
	// call fails, and its caller takes or writes the other rows without the locked row. The wait
	// is longer than deadlock_timeout (1 s), so that a deadlock is found.
	shortLockTimeout      = `set_config('lock_timeout', '1500', true)` // milliseconds
	sqlPlanPatient        = sqlPlanAnew + `, ` + shortLockTimeout
	sqlInsertTransactions = `INSERT INTO {transactions} (batch_seq, position, header_signature, family_name, family_version, signer_public_key)
	SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[])`
	sqlInsertTags = `INSERT INTO {batch_tags} (batch_seq, name, value, created_at)
	SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])`
	// The row locks are a write, so that the commit waits for synchronous standbys. Without a
	// write it would not wait, and a batch that is known, by its id or by the caller's key, may
	// not have reached the standbys yet.
	sqlKnown = `SELECT u.n, b.header_signature, b.service_id, b.payload_hash
	FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id_hash, n) JOIN {batches} b ON b.id_hash = u.id_hash FOR KEY SHARE OF b`
	sqlKnownChanges = `SELECT b.service_id, b.data_change_id, b.payload_hash FROM unnest($1::text[], $2::text[]) AS u (s, c)
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.service_id = u.s AND r.data_change_id = u.c
		AND r.data_change_id <> '' OFFSET 0) b FOR KEY SHARE OF b`
	// sqlAnyBuried and sqlBuried are statements of their own after the insert, so that they see
	// what Prune committed before the insert. The first sets plan_cache_mode, as sqlBeforeAdd
	// does.
	sqlAnyBuried = `SELECT EXISTS (SELECT 1 FROM {tombstones}) FROM set_config('plan_cache_mode', $1::text, true)`
	sqlBuried    = `SELECT u.n, ` + sqlstore.ColsTombstone + ` FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id_hash, n)
	CROSS JOIN LATERAL (SELECT * FROM {tombstones} t WHERE t.id_hash = u.id_hash OFFSET 0) p`
	sqlBuriedChange = `SELECT u.n, ` + sqlstore.ColsTombstone + ` FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (s, c, n)
	CROSS JOIN LATERAL (SELECT * FROM {tombstones} t WHERE t.service_id = u.s AND t.data_change_id = u.c
		AND t.data_change_id <> '' OFFSET 0) p`
	// sqlProbe and sqlUnprobe are for a transaction above READ COMMITTED: see
	// [session.probeTombstones].
	sqlProbe = `INSERT INTO {tombstones} (id_hash, header_signature, service_id, payload_hash, pruned_at, data_change_id, created_at, state,
		version, attempt, final_at, submission_error_message)
	SELECT u.h, u.id, u.s, '', 0, u.c, 0, 0, 0, 0, 0, '' FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS u (h, id, s, c)
	ON CONFLICT DO NOTHING RETURNING ctid::text`
	sqlUnprobe = `DELETE FROM {tombstones} WHERE ctid = ANY ($1::tid[])`
	// sqlTaken finds numbers that rows already have, although the sequence is still to assign
	// them, as in a copy of the data by logical replication. sqlRaiseNumbers then sets the
	// sequence to the largest number of a row.
	sqlTaken        = `SELECT EXISTS (SELECT 1 FROM {batches} b WHERE b.seq = ANY ($1::bigint[]))`
	sqlRaiseNumbers = `SELECT setval('{batch_seq}', m.seq) FROM (SELECT max(b.seq) AS seq FROM {batches} b) m
	WHERE m.seq > (SELECT s.last_value FROM {batch_seq} s)`
	sqlDeleteQueued = `DELETE FROM {waiting_batches} w USING {batches} b WHERE b.seq = ANY ($1::bigint[])
	AND w.service_id = b.service_id AND w.created_at = b.created_at AND w.seq = b.seq`

	colsBatch = sqlstore.ColsBatch
	colsRow   = `a.state, a.version, a.attempt, a.spent, a.failures, a.claim_expires, a.not_before, a.next_check, a.asked_at,
	a.last_post, a.settles_at, a.doubt_attempt, a.doubt_since, a.resend_until, a.resends, a.refused, a.requeued,
	a.submission_error, a.submission_error_message, a.decision, a.receipts, a.prepared, a.claimed_by,
	a.claim_ttl, a.moved_at, a.rollbacks, a.seen_attempt, a.seen_endpoint, a.withdrawn`
	colsOutcome = sqlstore.ColsOutcome

	// Rows are locked in a fixed order, so that no two calls wait for each other. The planner must
	// not use an index with this order, nor reverse the join. Either looks cheap while the
	// statistics say that the table is almost empty, which they also say if most rows are dead and
	// cannot be removed.
	sqlAttemptedRows = `SELECT ` + colsBatch + `, ` + colsRow + `, ` + clock + ` AS now FROM {attempted_batches} a
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = a.seq OFFSET 0) b
	WHERE a.seq = ANY ($1::bigint[]) ORDER BY a.seq + 0 FOR UPDATE OF a`
	sqlWaitingRows = `SELECT ` + colsBatch + `, w.version, w.requeued
	FROM (SELECT * FROM {batches} r WHERE r.seq = ANY ($1::bigint[]) ORDER BY r.seq + 0 OFFSET 0) b
	CROSS JOIN LATERAL (SELECT * FROM {waiting_batches} r WHERE r.service_id = b.service_id AND r.created_at = b.created_at
		AND r.seq = b.seq OFFSET 0) w FOR UPDATE OF w`
	sqlOutcomeRows = `SELECT ` + colsBatch + `, ` + colsOutcome + ` FROM {outcomes} f
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = f.seq OFFSET 0) b
	WHERE f.seq = ANY ($1::bigint[]) ORDER BY f.seq + 0 FOR UPDATE OF f`
	sqlThere = `SELECT b.seq FROM {batches} b WHERE b.seq = ANY ($1::bigint[])`

	sqlDeleteReceipts = `DELETE FROM {transaction_receipts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {transaction_receipts} x WHERE x.batch_seq = u.seq OFFSET 0) r))`
	sqlInsertReceipts = `INSERT INTO {transaction_receipts} (batch_seq, position, transaction_id, result_valid, error_message, error_data)
	SELECT u.seq, u.position, u.id, u.valid, u.message, substring($7::bytea FROM u.at FOR u.size)
	FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::boolean[], $5::text[], $6::integer[], $8::integer[])
		AS u (seq, position, id, valid, message, at, size)`

	// changedRows are the values of [rowArrays.addAttempted]; $2 is the version that was read.
	changedRows = `unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
		$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
		$17::bigint[], $18::boolean[], $19::boolean[], $20::text[], $21::text[], $22::text[], $23::integer[], $24::bigint[],
		$25::text[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[], $30::text[], $31::text[],
		$32::bigint[], $33::boolean[])
		AS u (seq, was, state, version, attempt, spent, failures, claim_expires, not_before, next_check, asked_at, last_post,
		settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued, submission_error,
		submission_error_message, decision, receipts, due_at, claimed_by,
		claim_ttl, moved_at, rollbacks, seen_attempt, seen_endpoint, service_id, created_at, withdrawn)`
	colsAttempted = `seq, state, version, attempt, spent, failures, claim_expires, not_before, next_check, asked_at, last_post,
		settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued, submission_error,
		submission_error_message, decision, receipts, due_at, service_id, created_at, claimed_by,
		claim_ttl, moved_at, rollbacks, seen_attempt, seen_endpoint, withdrawn`
	sqlUpdateAttempted = `UPDATE {attempted_batches} a SET state = u.state, version = u.version, attempt = u.attempt,
		spent = u.spent, failures = u.failures, claim_expires = u.claim_expires, not_before = u.not_before,
		next_check = u.next_check, asked_at = u.asked_at, last_post = u.last_post, settles_at = u.settles_at,
		doubt_attempt = u.doubt_attempt, doubt_since = u.doubt_since, resend_until = u.resend_until, resends = u.resends,
		refused = u.refused, requeued = u.requeued, submission_error = u.submission_error,
		submission_error_message = u.submission_error_message, decision = u.decision, receipts = u.receipts, due_at = u.due_at,
		claimed_by = u.claimed_by, claim_ttl = u.claim_ttl, moved_at = u.moved_at,
		rollbacks = u.rollbacks, seen_attempt = u.seen_attempt, seen_endpoint = u.seen_endpoint, withdrawn = u.withdrawn
	FROM (SELECT u.*, r.ctid AS place FROM ` + changedRows + ` CROSS JOIN LATERAL (SELECT x.ctid FROM {attempted_batches} x
		WHERE x.seq = u.seq AND x.version = u.was OFFSET 0) r) u WHERE a.ctid = u.place AND a.version = u.was`
	// sqlAdvance and sqlFinish write rows that the call has neither read nor locked: they skip a
	// row that has changed since the store returned it. They write in the order of the numbers, so
	// that no two calls wait for each other. A row may have got receipts that the caller cannot
	// see. The version is compared twice, because releases of PostgreSQL from before the end of
	// 2025 go on with a row that another transaction was just changing, although the row is in
	// another place by then (pgsql-hackers, September 2025, "missing EvalPlanQual recheck for TID
	// scans"). The end of a claim is compared, too, because it may be put right without a new
	// version.
	sqlAdvance = `UPDATE {attempted_batches} a SET state = u.state, version = u.was + 1, claim_expires = u.claim_expires,
		next_check = u.next_check, last_post = u.last_post, due_at = u.due_at, moved_at = u.moved_at
	FROM (SELECT u.*, r.ctid AS place FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[],
			$7::bigint[], $8::bigint[], $9::bigint[]) AS u (seq, was, state, claim_expires, next_check, last_post, due_at, expires, moved_at)
		CROSS JOIN LATERAL (SELECT x.ctid FROM {attempted_batches} x
			WHERE x.seq = u.seq AND x.version = u.was AND x.claim_expires = u.expires AND x.receipts = 0 OFFSET 0) r) u
	WHERE a.ctid = u.place AND a.version = u.was AND a.receipts = 0 RETURNING a.seq, a.asked_at`
	sqlFinish = `WITH gone AS (DELETE FROM {attempted_batches} a
		USING (SELECT u.was, u.last_post, r.ctid AS place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $6::bigint[]) AS u (seq, was, last_post, expires)
			CROSS JOIN LATERAL (SELECT x.ctid FROM {attempted_batches} x
				WHERE x.seq = u.seq AND x.version = u.was AND x.claim_expires = u.expires AND x.receipts = 0 OFFSET 0) r) u
		WHERE a.ctid = u.place AND a.version = u.was AND a.receipts = 0
		RETURNING a.seq, a.version, a.attempt, a.spent, a.failures, a.asked_at, u.last_post, a.settles_at, a.requeued)
	INSERT INTO {outcomes} (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at, final_at, requeued,
		submission_error, submission_error_message, receipts)
	SELECT seq, $4::smallint, version + 1, attempt, spent, failures, asked_at, last_post, settles_at, $5::bigint, requeued, NULL, '', 0
	FROM gone RETURNING seq, asked_at`
	// sqlTake moves rows that are claimed for the first time. The place in the table is where the
	// row was just read. The number detects another row in that place; it has + 0 so that no plan
	// searches for it in the index, where it is the last column. Payloads that are not known are
	// returned, which saves the transaction that would load them.
	sqlTake = `WITH gone AS (DELETE FROM {waiting_batches} w
		USING unnest($1::tid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $12::boolean[])
			AS u (place, seq, was, spent, resend_until, load)
		WHERE w.ctid = u.place AND w.seq + 0 = u.seq AND w.version = u.was
		RETURNING w.seq, w.service_id, w.created_at, w.version, w.requeued, u.spent, u.resend_until, u.load),
	taken AS (INSERT INTO {attempted_batches} (` + colsAttempted + `)
		SELECT seq, $6::smallint, version + 1 + $11::bigint, 1, spent, 0, $7::bigint, 0, $7::bigint, 0, 0, 0, 1, $8::bigint, resend_until, 0, false, requeued,
			NULL, '', '', 0, $7::bigint, service_id, created_at, $9::text,
			$10::bigint, $8::bigint, 0, 0, '', false FROM gone)
	SELECT g.seq, b.serialized_batch FROM gone g
	LEFT JOIN LATERAL (SELECT r.serialized_batch FROM {batches} r WHERE g.load AND r.seq = g.seq OFFSET 0) b ON true`
	// Only sqlKeepPrepared writes the column prepared, in locked rows. The column is removed with
	// the row.
	sqlKeepPrepared = `UPDATE {attempted_batches} a SET prepared = substring($3::bytea FROM u.at FOR u.size)
	FROM unnest($1::bigint[], $2::bigint[], $4::integer[], $5::integer[]) AS u (seq, was, at, size)
	WHERE a.seq = u.seq AND a.version = u.was`
	sqlInsertAttempted = `INSERT INTO {attempted_batches} (` + colsAttempted + `) SELECT ` + colsAttempted + ` FROM ` + changedRows
	sqlDeleteAttempted = `DELETE FROM {attempted_batches} a USING (SELECT u.was, r.ctid AS place FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, was)
		CROSS JOIN LATERAL (SELECT x.ctid FROM {attempted_batches} x WHERE x.seq = u.seq AND x.version = u.was OFFSET 0) r) u
	WHERE a.ctid = u.place AND a.version = u.was`
	sqlInsertWaiting = `INSERT INTO {waiting_batches} (seq, version, requeued, service_id, created_at)
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::bigint[])`
	sqlDeleteWaiting = `DELETE FROM {waiting_batches} w
	USING unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS u (seq, was, service_id, created_at)
	WHERE w.service_id = u.service_id AND w.created_at = u.created_at AND w.seq = u.seq AND w.version = u.was`
	sqlInsertOutcomes = `INSERT INTO {outcomes} (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at,
		final_at, requeued, submission_error, submission_error_message, receipts, orders_settled, quarantined)
	SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
		$8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[], $12::text[], $13::text[], $14::integer[], $15::boolean[],
		$16::boolean[])`
	sqlDeleteOutcomes = `DELETE FROM {outcomes} f USING unnest($1::bigint[], $2::bigint[]) AS u (seq, was)
	WHERE f.seq = u.seq AND f.version = u.was`

	// sqlCounts is one statement, so that a batch that is claimed meanwhile counts once.
	sqlCounts = `SELECT u.s AS service_id, a.state::bigint AS state, count(*) AS n FROM unnest($1::text[], $3::bigint[]) AS u (s, low)
	CROSS JOIN LATERAL (SELECT r.state FROM {attempted_batches} r WHERE r.service_id = u.s AND r.created_at >= u.low OFFSET 0) a GROUP BY 1, 2
	UNION ALL SELECT u.s, 0, w.n FROM unnest($1::text[], $3::bigint[]) AS u (s, low) CROSS JOIN LATERAL (SELECT count(*) AS n FROM
		(SELECT 1 FROM {waiting_batches} r WHERE r.service_id = u.s AND r.created_at >= u.low LIMIT $2::bigint) c) w`

	// OFFSET 0 and LATERAL keep the planner from reversing the join: without statistics it
	// estimates that a hundred lanes are half of the table. Closed lanes show no rows. A lane that
	// is halted between the two statements still shows, in the first, the batch that halted it.
	// The rows of closed lanes are marked, so that a lane without rows is empty, open or closed. A
	// lane may have several ranges of order keys.
	sqlAttempted    = attemptedOf + isClosedLane + attemptedIn
	sqlWaiting      = waitingOf + isClosedLane + waitingIn
	windowAttempted = attemptedOf + `false` + attemptedIn
	windowWaiting   = waitingOf + `false` + waitingIn
	isClosedLane    = `NOT (` + notClosed + `)`
	attemptedOf     = `SELECT ` + colsBatch + `, b.footprint, ` + payloadSize + `, u.closed, ` + colsRow + ` FROM (SELECT u.*, `
	attemptedIn     = ` AS closed FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (s, low, high) OFFSET 0) u
	CROSS JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.service_id = u.s AND r.created_at >= u.low AND r.created_at <= u.high OFFSET 0) a
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = a.seq OFFSET 0) b`
	// FETCH ... WITH TIES is needed because the id decides among equal order keys, and this table
	// does not have the id. The last argument says whether the batches are read, too: see
	// [session.readWaiting].
	waitingOf = `SELECT u.part, w.seq, w.created_at, u.closed, w.version, w.requeued, w.place::text AS place, ` + colsClaim + ` FROM (SELECT u.*, `
	waitingIn = ` AS closed FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS u (s, low, high, n, part) OFFSET 0) u
	CROSS JOIN LATERAL (SELECT q.seq, q.created_at, q.version, q.requeued, q.ctid AS place FROM {waiting_batches} q WHERE q.service_id = u.s
		AND q.created_at >= u.low AND q.created_at <= u.high ORDER BY q.created_at FETCH FIRST (u.n) ROWS WITH TIES) w
	LEFT JOIN LATERAL (SELECT * FROM {batches} r WHERE $5::boolean AND r.seq = w.seq OFFSET 0) b ON true`
	// sqlClaimable reads those columns of waiting batches that were not read together with the
	// rows.
	sqlClaimable = `SELECT u.n AS part, ` + colsClaim + ` FROM unnest($1::bigint[]) WITH ORDINALITY AS u (seq, n)
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = u.seq OFFSET 0) b`
	colsClaim = `coalesce(b.header_signature, '') AS header_signature, coalesce(b.budget_attempts, 0) AS budget_attempts,
	coalesce(b.budget_every_try, false) AS budget_every_try, b.footprint, ` + payloadSize + `, ` + sqlstore.TraceParent
	// octet_length does not read the payload itself.
	payloadSize = `coalesce(octet_length(b.serialized_batch), 0) AS size`

	sqlPayloads = `SELECT b.seq, b.header_signature, b.service_id, b.serialized_batch FROM {batches} b
	WHERE b.seq = ANY ($1::bigint[])`

	// sqlDue finds due rows among the rows under way: see [position.UnderWay]. If more rows are
	// due than it takes, other callers at the same time take others.
	sqlDue = clockOnce + `, due AS MATERIALIZED (` + dueRows + ` FOR UPDATE OF a SKIP LOCKED)
	UPDATE {attempted_batches} a SET asked_at = due.now, next_check = due.now + $6::bigint, due_at = due.now + $6::bigint` + leasedRows
	// sqlOwned is sqlDue for named lanes: it takes rows that the monitor owns, due or not, and no
	// live claims ($3 is Submitting). It looks up each lane in the index that begins with the
	// lane.
	sqlOwned = clockOnce + `, due AS MATERIALIZED (` + ownedRows + ` FOR UPDATE OF a SKIP LOCKED)
	UPDATE {attempted_batches} a SET asked_at = due.now, next_check = due.now + $5::bigint, due_at = due.now + $5::bigint` + leasedRows
	// sqlLookDue and sqlLookOwned take no lease.
	sqlLookDue   = clockOnce + `, due AS MATERIALIZED (` + dueRows + `)` + lookRows
	sqlLookOwned = clockOnce + `, due AS MATERIALIZED (` + ownedRows + `)` + lookRows
	clockOnce    = `WITH t AS MATERIALIZED (SELECT ` + clock + ` AS now)`
	// Rows are found by their places, so that no plan reads the whole table.
	leasedRows = `
	FROM due CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = due.seq OFFSET 0) b WHERE a.ctid = due.place
	RETURNING ` + colsBatch + `, ` + colsRow + `, due.asked_at AS asked_was, due.now`
	dueRows = `
		SELECT a.seq, a.ctid AS place, a.asked_at, t.now FROM {attempted_batches} a CROSS JOIN t
		WHERE a.seq = ANY (ARRAY (SELECT d.seq FROM (
			SELECT x.seq, x.asked_at, x.created_at FROM {attempted_batches} x WHERE x.made_by >= $2::bigint
				AND ` + isDue + `
			UNION ALL SELECT x.seq, x.asked_at, x.created_at FROM unnest($3::bigint[]) AS u (seq)
				CROSS JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.seq = u.seq AND r.made_by + 0 < $2::bigint OFFSET 0) x
				WHERE ` + isDue + `) d
			ORDER BY d.asked_at, d.created_at, d.seq LIMIT 8 * $1::bigint))
			AND (a.due_at <= t.now OR (a.due_at > t.now + $4::bigint AND a.due_at < 9223372036854775807
				AND (a.state <> $5::bigint OR a.claim_expires <= t.now OR a.claim_expires = a.last_post))
				OR ` + sqlstore.ClaimAhead + `t.now))
		ORDER BY a.asked_at, a.created_at, a.seq LIMIT $1::bigint`
	// A check that is further ahead than $4 was set before the clock was put back. A live claim
	// ($5 is Submitting) is not due so, unless it was also made before that.
	isDue = `(x.due_at <= (SELECT t.now FROM t)
					OR (x.due_at > (SELECT t.now + $4::bigint FROM t) AND x.due_at < 9223372036854775807
					AND (x.state <> $5::bigint OR x.claim_expires <= (SELECT t.now FROM t) OR x.claim_expires = x.last_post))
					OR ` + sqlstore.ClaimAhead + `(SELECT t.now FROM t)))`
	ownedRows = `
		SELECT a.seq, a.ctid AS place, a.asked_at, t.now FROM {attempted_batches} a CROSS JOIN t
		WHERE a.seq = ANY (ARRAY (SELECT r.seq FROM unnest($2::text[], $4::bigint[]) AS u (s, low)
			CROSS JOIN LATERAL (SELECT x.seq FROM {attempted_batches} x WHERE x.service_id = u.s AND x.created_at >= u.low OFFSET 0) r))
		AND a.due_at < 9223372036854775807 AND (a.state <> $3::bigint OR a.claim_expires <= t.now OR a.claim_expires = a.last_post)
		ORDER BY a.asked_at, a.created_at, a.seq LIMIT $1::bigint`
	lookRows = `
	SELECT ` + colsBatch + `, ` + colsRow + `, due.asked_at AS asked_was, due.now FROM due
	CROSS JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.seq = due.seq OFFSET 0) a
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = due.seq OFFSET 0) b`
	// Among equal order keys the id decides, which the index does not have.
	sqlWitnesses = `SELECT w.header_signature FROM {attempted_batches} a
	CROSS JOIN LATERAL (SELECT b.header_signature, b.service_id FROM {batches} b WHERE b.seq = a.seq OFFSET 0) own
	CROSS JOIN LATERAL (SELECT b.seq, b.created_at, b.header_signature FROM {batches} b
		WHERE b.service_id = a.service_id AND b.created_at <= a.created_at
		AND (b.created_at < a.created_at OR b.header_signature < own.header_signature)
		ORDER BY b.created_at DESC LIMIT $5::bigint) w
	CROSS JOIN LATERAL (SELECT f.state, f.final_at FROM {outcomes} f WHERE f.seq = w.seq OFFSET 0) f
	WHERE a.seq = $1::bigint AND own.header_signature = $2::text AND own.service_id = $3::text
	AND f.state = ANY ($4::smallint[]) AND f.final_at < a.doubt_since
	ORDER BY w.created_at DESC, w.header_signature DESC LIMIT $6::bigint`
	sqlCheck = `UPDATE {attempted_batches} a SET next_check = u.next_check, due_at = u.due_at
	FROM (SELECT u.*, r.ctid AS place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (seq, was, next_check, due_at)
		CROSS JOIN LATERAL (SELECT x.ctid FROM {attempted_batches} x WHERE x.seq = u.seq AND x.version = u.was OFFSET 0) r) u
	WHERE a.ctid = u.place AND a.version = u.was`

	sqlOldStreamIDs = `SELECT i.stream, i.id, i.at FROM {stream_ids} i WHERE i.at <= $1::bigint AND i.at >= $3::bigint
	ORDER BY i.at LIMIT $2::bigint`
	sqlDeleteStreamIDs = `DELETE FROM {stream_ids} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (stream, id, until)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {stream_ids} x WHERE x.stream = u.stream AND x.id = u.id AND x.at <= u.until OFFSET 0) r))`

	// A batch has a row in one of three tables. One statement reads all three, because the batch
	// may move meanwhile.
	colsRecord = `SELECT ` + colsBatch + `, ` + sqlstore.Tags + `, ` + colsAny + `, coalesce(a.claimed_by, '') AS claimed_by, ` + colsAnyClaim
	colsAny    = stateOf + ` AS state, coalesce(a.version, f.version, w.version) AS version, coalesce(a.attempt, f.attempt, 0) AS attempt,
	coalesce(a.spent, f.spent, 0) AS spent, coalesce(a.failures, f.failures, 0) AS failures, coalesce(a.claim_expires, 0) AS claim_expires,
	coalesce(a.not_before, 0) AS not_before, coalesce(a.next_check, 0) AS next_check, coalesce(a.asked_at, f.asked_at, 0) AS asked_at,
	coalesce(a.last_post, f.last_post, 0) AS last_post, coalesce(a.settles_at, f.settles_at, 0) AS settles_at,
	coalesce(a.doubt_attempt, 0) AS doubt_attempt, coalesce(a.doubt_since, 0) AS doubt_since, coalesce(a.resend_until, 0) AS resend_until,
	coalesce(a.resends, 0) AS resends, coalesce(a.refused, false) AS refused, coalesce(a.requeued, f.requeued, w.requeued) AS requeued,
	coalesce(a.submission_error, f.submission_error) AS submission_error,
	coalesce(a.submission_error_message, f.submission_error_message, '') AS submission_error_message, coalesce(a.decision, '') AS decision,
	coalesce(a.receipts, f.receipts, 0) AS receipts, coalesce(f.final_at, 0) AS final_at, coalesce(f.quarantined, false) AS quarantined`
	colsAnyClaim = `coalesce(a.claim_ttl, 0) AS claim_ttl, coalesce(a.moved_at, 0) AS moved_at,
	coalesce(a.rollbacks, 0) AS rollbacks, coalesce(a.seen_attempt, 0) AS seen_attempt,
	coalesce(a.seen_endpoint, '') AS seen_endpoint, coalesce(a.withdrawn, false) AS withdrawn`
	// joinRows looks up each batch: see sqlAttemptedRows.
	joinRows = ` LEFT JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.seq = b.seq OFFSET 0) a ON true
	LEFT JOIN LATERAL (SELECT * FROM {outcomes} r WHERE r.seq = b.seq OFFSET 0) f ON true
	LEFT JOIN LATERAL (SELECT * FROM {waiting_batches} r WHERE r.service_id = b.service_id AND r.created_at = b.created_at
		AND r.seq = b.seq OFFSET 0) w ON true`
	listAll = colsRecord + ` FROM {batches} b` + joinRows + ` WHERE `
	// A batch without a row in the other two tables is Queued (1).
	stateOf = `coalesce(a.state, f.state, 1)`
	// listOpen finds open batches through their own tables, so the length of the history does not
	// matter.
	listOpen = colsRecord + ` FROM (
		SELECT seq, service_id, created_at FROM {waiting_batches} UNION ALL
		SELECT seq, service_id, created_at FROM {attempted_batches}) o
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = o.seq OFFSET 0) b` + joinRows + ` WHERE `

	// listQuarantined finds batches in quarantine through their own index.
	listQuarantined = colsRecord + ` FROM {outcomes} f CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = f.seq OFFSET 0) b
	LEFT JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.seq = f.seq OFFSET 0) a ON true
	LEFT JOIN LATERAL (SELECT * FROM {waiting_batches} r WHERE r.service_id = b.service_id AND r.created_at = b.created_at
		AND r.seq = b.seq OFFSET 0) w ON true WHERE f.quarantined AND `

	// listTagged finds batches with a tag through the indexes of tags, in order.
	listTagged = colsRecord + ` FROM {batch_tags} t CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = t.batch_seq OFFSET 0) b` +
		joinRows + ` WHERE `

	// sqlPrunable finds batches by the rule store.Row.Prunable, through an index. OFFSET 0 makes
	// the planner look up batches in flight instead of joining. A transaction that names a known
	// batch holds the batch's row until it ends (see sqlKnown). Prune does not wait for such a
	// row, and locks no row that it does not remove.
	sqlPrunable = `SELECT f.seq, f.final_at AS at FROM {outcomes} f
	CROSS JOIN LATERAL (SELECT r.seq FROM {batches} r WHERE r.seq = f.seq OFFSET 0) b
	WHERE f.final_at <= $1::bigint AND f.final_at >= $3::bigint AND NOT f.quarantined
	AND NOT EXISTS (SELECT 1 FROM {unsettled_batches} u WHERE u.batch_seq = f.seq OFFSET 0)
	ORDER BY f.final_at LIMIT $2::bigint FOR UPDATE OF f, b SKIP LOCKED`
	sqlBury = `INSERT INTO {tombstones} (id_hash, ` + sqlstore.BuryInto + `)
	SELECT b.id_hash, ` + sqlstore.BuryFrom + ` FROM {batches} b
	CROSS JOIN LATERAL (SELECT * FROM {outcomes} r WHERE r.seq = b.seq OFFSET 0) f WHERE b.seq = ANY ($1::bigint[])
	ON CONFLICT (id_hash) DO NOTHING`
	sqlTombs = `SELECT ` + sqlstore.ColsTombstone + ` FROM unnest($1::text[]) AS u (id)
	CROSS JOIN LATERAL (SELECT * FROM {tombstones} t
		WHERE t.id_hash = encode(substring(convert_to(u.id, 'UTF8') || '\x000000000000'::bytea FOR 6)
			|| substring(sha256(convert_to(u.id, 'UTF8')) FOR 10), 'hex')::uuid OFFSET 0) p`
	sqlTombsByHash       = `SELECT t.header_signature FROM {tombstones} t WHERE t.id_hash >= $1::uuid AND t.id_hash <= $2::uuid ORDER BY t.id_hash LIMIT $3::bigint`
	sqlPruneTransactions = `DELETE FROM {transactions} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {transactions} x WHERE x.batch_seq = u.seq OFFSET 0) r))`
	sqlPruneTags = `DELETE FROM {batch_tags} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {batch_tags} x WHERE x.batch_seq = u.seq OFFSET 0) r))`
	sqlPruneOutcomes = `DELETE FROM {outcomes} WHERE seq = ANY ($1::bigint[])`
	sqlPruneBatches  = `DELETE FROM {batches} WHERE seq = ANY ($1::bigint[])`
)
