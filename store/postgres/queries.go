package postgres

// All statements are here, but those of migrations, and List's, which is put
// together from its query. {name} is a table. A test asks the planner about each and
// fails on a scan of a table that grows.
//
// clock_timestamp is not qualified, so that tests can put one of their own before it.
const (
	clock  = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	sqlNow = `SELECT ` + clock

	// plan_cache_mode is one of three words, and safe to be sent back as it is.
	sqlTxSettings = `SELECT current_setting('transaction_isolation'), current_setting('plan_cache_mode')`
	sqlSettings   = `SELECT current_setting('server_encoding'), current_setting('synchronous_commit')`

	// sqlBeforeAdd reads all that an Add needs to know: the clock, the last order key of
	// each lane, and numbers for the batches.
	sqlBeforeAdd = `SELECT 0 AS kind, '' AS service_id, ` + clock + ` AS n
	UNION ALL SELECT 1, u.s, coalesce((SELECT max(b.created_at) FROM {batches} b WHERE b.service_id = u.s), 0)
		FROM unnest($1::text[]) AS u (s)
	UNION ALL SELECT 2, '', nextval('{batch_seq}') FROM generate_series(1, $2::bigint)`
	// All bytes come in one value: the hash, then the footprint, then the payload of
	// each batch. Arrays of bytes are slow with every driver.
	sqlInsertBatches = `WITH added AS (INSERT INTO {batches} (seq, header_signature, service_id, created_at, data_change_id,
		signer_public_key, trace, budget_attempts, budget_every_try, payload_hash, footprint, serialized_batch)
	SELECT u.seq, u.id, u.service_id, u.created_at, u.change, u.signer, u.trace, u.attempts, u.every_try,
		substring($13::bytea FROM u.at FOR 32),
		CASE WHEN u.footprint > 0 THEN substring($13::bytea FROM u.at + 32 FOR u.footprint) END,
		substring($13::bytea FROM u.at + 32 + u.footprint FOR u.payload)
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::boolean[], $8::bigint[],
		$9::boolean[], $10::integer[], $11::integer[], $12::integer[])
		AS u (seq, id, service_id, created_at, change, signer, trace, attempts, every_try, at, footprint, payload)
	ON CONFLICT (header_signature) DO NOTHING RETURNING seq, service_id, created_at),
	queued AS (INSERT INTO {waiting_batches} (seq, service_id, created_at, version, requeued)
		SELECT seq, service_id, created_at, $14::bigint, false FROM added)
	SELECT seq FROM added`
	// A generic plan does not copy the bytes, and for the statement above there is no
	// other plan than this one.
	sqlGenericPlans       = `SET LOCAL plan_cache_mode = force_generic_plan`
	sqlCustomPlans        = `SET LOCAL plan_cache_mode = force_custom_plan`
	sqlInsertTransactions = `INSERT INTO {transactions} (batch_seq, position, header_signature, family_name, family_version, signer_public_key)
	SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[])`
	sqlKnown = `SELECT b.header_signature, b.service_id, b.payload_hash
	FROM unnest($1::text[]) AS u (id) JOIN {batches} b ON b.header_signature = u.id`
	// These come after the insert in statements of their own, so that they see what
	// Prune has removed before that.
	sqlAnyBuried = `SELECT EXISTS (SELECT 1 FROM {tombstones})`
	sqlBuried    = `SELECT b.seq, p.service_id, p.payload_hash FROM {batches} b
	JOIN {tombstones} p ON p.header_signature = b.header_signature WHERE b.seq = ANY ($1::bigint[])`
	sqlDeleteQueued = `DELETE FROM {waiting_batches} w USING {batches} b WHERE b.seq = ANY ($1::bigint[])
	AND w.service_id = b.service_id AND w.created_at = b.created_at AND w.seq = b.seq`

	colsBatch = `b.seq, b.header_signature, b.service_id, b.created_at, b.data_change_id, b.budget_attempts, b.budget_every_try`
	colsRow   = `a.state, a.version, a.attempt, a.spent, a.failures, a.claim_expires, a.not_before, a.next_check, a.asked_at,
	a.last_post, a.settles_at, a.doubt_attempt, a.doubt_since, a.resend_until, a.resends, a.refused, a.requeued,
	a.submission_error, a.submission_error_message, a.decision, a.receipts`
	colsOutcome = `f.state, f.version, f.attempt, f.spent, f.failures, f.asked_at, f.last_post, f.settles_at, f.final_at,
	f.requeued, f.submission_error, f.submission_error_message, f.receipts`

	// Rows are locked in one order, so that no two calls wait for each other.
	sqlAttemptedRows = `SELECT ` + colsBatch + `, ` + colsRow + `, ` + clock + ` FROM {attempted_batches} a
	JOIN {batches} b ON b.seq = a.seq WHERE a.seq = ANY ($1::bigint[]) ORDER BY a.seq FOR UPDATE OF a`
	sqlWaitingRows = `SELECT ` + colsBatch + `, w.version, w.requeued FROM {batches} b
	JOIN {waiting_batches} w ON w.service_id = b.service_id AND w.created_at = b.created_at AND w.seq = b.seq
	WHERE b.seq = ANY ($1::bigint[]) ORDER BY b.seq FOR UPDATE OF w`
	sqlOutcomeRows = `SELECT ` + colsBatch + `, ` + colsOutcome + ` FROM {outcomes} f
	JOIN {batches} b ON b.seq = f.seq WHERE f.seq = ANY ($1::bigint[]) ORDER BY f.seq FOR UPDATE OF f`
	sqlSeqs = `SELECT b.seq, b.header_signature, b.service_id FROM {batches} b WHERE b.header_signature = ANY ($1::text[])`
	sqlKeys = `SELECT b.seq, b.header_signature, b.service_id FROM {batches} b WHERE b.seq = ANY ($1::bigint[])`

	sqlReceipts = `SELECT r.batch_seq, r.transaction_id, r.result_valid, r.error_message, r.error_data FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT * FROM {transaction_receipts} x WHERE x.batch_seq = u.seq OFFSET 0) r ORDER BY r.batch_seq, r.position`
	sqlDeleteReceipts = `DELETE FROM {transaction_receipts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {transaction_receipts} x WHERE x.batch_seq = u.seq OFFSET 0) r))`
	sqlInsertReceipts = `INSERT INTO {transaction_receipts} (batch_seq, position, transaction_id, result_valid, error_message, error_data)
	SELECT u.seq, u.position, u.id, u.valid, u.message, substring($7::bytea FROM u.at FOR u.size)
	FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::boolean[], $5::text[], $6::integer[], $8::integer[])
		AS u (seq, position, id, valid, message, at, size)`

	// changedRows is what attemptedArgs sends, from $1 on; $2 is the version that was read.
	changedRows = `unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
		$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
		$17::bigint[], $18::boolean[], $19::boolean[], $20::text[], $21::text[], $22::text[], $23::integer[], $24::bigint[],
		$25::text[], $26::bigint[])
		AS u (seq, was, state, version, attempt, spent, failures, claim_expires, not_before, next_check, asked_at, last_post,
		settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued, submission_error,
		submission_error_message, decision, receipts, due_at, service_id, created_at)`
	colsAttempted = `seq, state, version, attempt, spent, failures, claim_expires, not_before, next_check, asked_at, last_post,
		settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued, submission_error,
		submission_error_message, decision, receipts, due_at, service_id, created_at`
	sqlUpdateAttempted = `UPDATE {attempted_batches} a SET state = u.state, version = u.version, attempt = u.attempt,
		spent = u.spent, failures = u.failures, claim_expires = u.claim_expires, not_before = u.not_before,
		next_check = u.next_check, asked_at = u.asked_at, last_post = u.last_post, settles_at = u.settles_at,
		doubt_attempt = u.doubt_attempt, doubt_since = u.doubt_since, resend_until = u.resend_until, resends = u.resends,
		refused = u.refused, requeued = u.requeued, submission_error = u.submission_error,
		submission_error_message = u.submission_error_message, decision = u.decision, receipts = u.receipts, due_at = u.due_at
	FROM ` + changedRows + ` WHERE a.seq = u.seq AND a.version = u.was`
	sqlInsertAttempted = `INSERT INTO {attempted_batches} (` + colsAttempted + `) SELECT ` + colsAttempted + ` FROM ` + changedRows
	sqlDeleteAttempted = `DELETE FROM {attempted_batches} a USING unnest($1::bigint[], $2::bigint[]) AS u (seq, was)
	WHERE a.seq = u.seq AND a.version = u.was`
	sqlInsertWaiting = `INSERT INTO {waiting_batches} (seq, version, requeued, service_id, created_at)
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::bigint[])`
	sqlDeleteWaiting = `DELETE FROM {waiting_batches} w
	USING unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS u (seq, was, service_id, created_at)
	WHERE w.service_id = u.service_id AND w.created_at = u.created_at AND w.seq = u.seq AND w.version = u.was`
	sqlInsertOutcomes = `INSERT INTO {outcomes} (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at,
		final_at, requeued, submission_error, submission_error_message, receipts)
	SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
		$8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[], $12::text[], $13::text[], $14::integer[])`
	sqlDeleteOutcomes = `DELETE FROM {outcomes} f USING unnest($1::bigint[], $2::bigint[]) AS u (seq, was)
	WHERE f.seq = u.seq AND f.version = u.was`

	// Lanes jumps from service to service: two lookups for each, however long they are.
	sqlLanesFirst = `WITH RECURSIVE lanes (service_id) AS (
		SELECT least((SELECT min(w.service_id) FROM {waiting_batches} w), (SELECT min(a.service_id) FROM {attempted_batches} a))` + lanesNext
	sqlLanesAfter = `WITH RECURSIVE lanes (service_id) AS (
		SELECT least((SELECT min(w.service_id) FROM {waiting_batches} w WHERE w.service_id > $2::text),
			(SELECT min(a.service_id) FROM {attempted_batches} a WHERE a.service_id > $2::text))` + lanesNext
	lanesNext = `
		UNION ALL
		SELECT least((SELECT min(w.service_id) FROM {waiting_batches} w WHERE w.service_id > l.service_id),
			(SELECT min(a.service_id) FROM {attempted_batches} a WHERE a.service_id > l.service_id))
		FROM lanes l WHERE l.service_id IS NOT NULL)
	SELECT service_id FROM lanes WHERE service_id IS NOT NULL LIMIT $1::bigint`

	sqlLockLanes = `SELECT s.service_id, ` + clock + ` FROM {services} s WHERE s.service_id = ANY ($1::text[])
	FOR NO KEY UPDATE SKIP LOCKED`
	sqlLanesThere = `SELECT u.s, EXISTS (SELECT 1 FROM {services} s WHERE s.service_id = u.s),
		EXISTS (SELECT 1 FROM {waiting_batches} w WHERE w.service_id = u.s)
		OR EXISTS (SELECT 1 FROM {attempted_batches} a WHERE a.service_id = u.s)
	FROM unnest($1::text[]) AS u (s)`
	// In one order, so that no two calls wait for each other.
	sqlNewLanes = `INSERT INTO {services} (service_id) SELECT u.s FROM unnest($1::text[]) AS u (s) ORDER BY u.s COLLATE "C"
	ON CONFLICT DO NOTHING`
	// OFFSET 0 and LATERAL keep the planner from turning the join round: without
	// statistics it believes that a hundred lanes are half of the table.
	sqlAttempted = `SELECT ` + colsBatch + `, b.footprint, ` + colsRow + ` FROM unnest($1::text[]) AS u (s)
	CROSS JOIN LATERAL (SELECT * FROM {attempted_batches} r WHERE r.service_id = u.s OFFSET 0) a
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = a.seq OFFSET 0) b`
	// With ties, because those are broken by an id that the queue does not have.
	sqlWaiting = `SELECT ` + colsBatch + `, b.footprint, w.version, w.requeued FROM unnest($1::text[]) AS u (s)
	CROSS JOIN LATERAL (SELECT q.seq, q.version, q.requeued FROM {waiting_batches} q WHERE q.service_id = u.s
		ORDER BY q.created_at FETCH FIRST ($2::bigint) ROWS WITH TIES) w
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = w.seq OFFSET 0) b`

	sqlPayloads = `SELECT b.seq, b.header_signature, b.service_id, b.serialized_batch FROM {batches} b
	WHERE b.seq = ANY ($1::bigint[])`

	// The table is read through: it is as large as what is under way, and an index on
	// due_at would cost more, since with it no update could stay in its page.
	sqlDue = `WITH t AS MATERIALIZED (SELECT ` + clock + ` AS now), due AS MATERIALIZED (
		SELECT a.seq, a.asked_at, t.now FROM {attempted_batches} a CROSS JOIN t WHERE a.due_at <= t.now
		ORDER BY a.asked_at, a.created_at, a.seq LIMIT $1::bigint FOR UPDATE OF a SKIP LOCKED)
	UPDATE {attempted_batches} a SET asked_at = due.now, next_check = due.now + $2::bigint, due_at = due.now + $2::bigint
	FROM due JOIN {batches} b ON b.seq = due.seq WHERE a.seq = due.seq
	RETURNING ` + colsBatch + `, ` + colsRow + `, due.asked_at, due.now`
	sqlCheck = `UPDATE {attempted_batches} a SET next_check = u.next_check, due_at = u.due_at
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (seq, was, next_check, due_at)
	WHERE a.seq = u.seq AND a.version = u.was`

	sqlLedger    = `SELECT name FROM {ledger} WHERE id = 1`
	sqlSetLedger = `INSERT INTO {ledger} (id, name) VALUES (1, $1::text) ON CONFLICT DO NOTHING`

	// A batch is in one of three tables; which one is read in one statement, since it
	// may move in between.
	colsRecord = `SELECT ` + colsBatch + `,
	coalesce(a.state, f.state, 1), coalesce(a.version, f.version, w.version), coalesce(a.attempt, f.attempt, 0),
	coalesce(a.spent, f.spent, 0), coalesce(a.failures, f.failures, 0), coalesce(a.claim_expires, 0), coalesce(a.not_before, 0),
	coalesce(a.next_check, 0), coalesce(a.asked_at, f.asked_at, 0), coalesce(a.last_post, f.last_post, 0),
	coalesce(a.settles_at, f.settles_at, 0), coalesce(a.doubt_attempt, 0), coalesce(a.doubt_since, 0),
	coalesce(a.resend_until, 0), coalesce(a.resends, 0), coalesce(a.refused, false),
	coalesce(a.requeued, f.requeued, w.requeued), coalesce(a.submission_error, f.submission_error),
	coalesce(a.submission_error_message, f.submission_error_message, ''), coalesce(a.decision, ''),
	coalesce(a.receipts, f.receipts, 0), coalesce(f.final_at, 0)`
	joinWaiting = ` LEFT JOIN {waiting_batches} w ON w.service_id = b.service_id AND w.created_at = b.created_at AND w.seq = b.seq`
	listAll     = colsRecord + ` FROM {batches} b LEFT JOIN {attempted_batches} a ON a.seq = b.seq
	LEFT JOIN {outcomes} f ON f.seq = b.seq` + joinWaiting + ` WHERE `
	sqlGet = listAll + `b.header_signature = $1::text`
	// listOpen is for open batches: they are found through their own tables, however
	// long the history is.
	listOpen = colsRecord + ` FROM (
		SELECT seq, service_id, created_at FROM {waiting_batches} UNION ALL
		SELECT seq, service_id, created_at FROM {attempted_batches}) o
	JOIN {batches} b ON b.seq = o.seq LEFT JOIN {attempted_batches} a ON a.seq = b.seq
	LEFT JOIN {outcomes} f ON f.seq = b.seq` + joinWaiting + ` WHERE `

	sqlPrunable = `SELECT seq FROM {outcomes} WHERE final_at <= $1::bigint ORDER BY final_at LIMIT $2::bigint
	FOR UPDATE SKIP LOCKED`
	sqlBury = `INSERT INTO {tombstones} (header_signature, service_id, payload_hash, pruned_at)
	SELECT b.header_signature, b.service_id, b.payload_hash, $2::bigint FROM {batches} b WHERE b.seq = ANY ($1::bigint[])
	ON CONFLICT DO NOTHING`
	sqlPruneTransactions = `DELETE FROM {transactions} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {transactions} x WHERE x.batch_seq = u.seq OFFSET 0) r))`
	sqlPruneOutcomes = `DELETE FROM {outcomes} WHERE seq = ANY ($1::bigint[])`
	sqlPruneBatches  = `DELETE FROM {batches} WHERE seq = ANY ($1::bigint[])`
)
