package sqlite

import "github.com/dltbatch/dltbatch/internal/sqlstore"

// These are the statements that only this driver sends; package sqlstore has the others. A test
// asks the planner about each statement, those of sqlstore included, and fails on a scan of a
// table that grows.
const (
	// ownClock is the database's clock in microseconds; its resolution is milliseconds.
	ownClock = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000`

	// sqlLastSeq reads the number assigned last. In a copy of the data without SQLite's own table
	// of assigned numbers, or with an old one, the numbers of stored batches must not be assigned
	// again.
	sqlLastSeq   = `SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'dltbatch_batches'), (SELECT coalesce(max(seq), 0) FROM dltbatch_batches))`
	sqlAnyLast   = `SELECT coalesce(max(created_at), 0) FROM dltbatch_batches`
	sqlLaneLasts = `SELECT j.value AS service_id, coalesce((SELECT max(b.created_at) FROM dltbatch_batches b WHERE b.service_id = j.value), 0) AS created_at
	FROM json_each(?) j`
	insertBatch = ` INTO dltbatch_batches (seq, id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key,
	trace, payload_hash, budget_attempts, budget_every_try, footprint) VALUES `
	batchValues    = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlInsertBatch = `INSERT` + insertBatch + batchValues + ` ON CONFLICT DO NOTHING`
	// These statements insert maxAddedTogether batches.
	sqlInsertBatches = `INSERT OR IGNORE` + insertBatch + batchValues + `, ` + batchValues + `, ` + batchValues + `, ` + batchValues + `, ` +
		batchValues
	sqlInsertPayloads = `INSERT INTO dltbatch_batch_payloads (seq, serialized_batch) VALUES (?, ?), (?, ?), (?, ?), (?, ?), (?, ?)`
	// sqlSetTrace is a separate statement, so that a batch without a trace context costs nothing
	// more. The row has just been written, and is in memory.
	sqlSetTrace = `UPDATE dltbatch_batches SET trace_parent = ? WHERE seq = ?`
	// sqlSetTags and sqlInsertTag are separate for the same reason: most batches have no tags.
	sqlSetTags           = `UPDATE dltbatch_batches SET tags = ? WHERE seq = ?`
	sqlInsertTag         = `INSERT INTO dltbatch_batch_tags (batch_seq, name, value, created_at) VALUES (?, ?, ?, ?)`
	sqlDeleteAt          = `DELETE FROM dltbatch_batches WHERE service_id = ? AND created_at = ?`
	sqlInsertPayload     = `INSERT INTO dltbatch_batch_payloads (seq, serialized_batch) VALUES (?, ?)`
	sqlInsertTransaction = `INSERT INTO dltbatch_transactions (batch_seq, position, header_signature, family_name, family_version,
	signer_public_key) VALUES (?, ?, ?, ?, ?, ?)`
	sqlInsertNew = `INSERT INTO dltbatch_open_batches (seq, service_id, created_at, state, version)
	SELECT seq, service_id, created_at, ?, ? FROM dltbatch_batches WHERE seq BETWEEN ? AND ?`
	sqlSame       = `SELECT header_signature, service_id = ? AND payload_hash = ? AS same FROM dltbatch_batches WHERE id_hash = ?`
	sqlSameChange = `SELECT payload_hash = ? FROM dltbatch_batches WHERE service_id = ? AND data_change_id = ? AND data_change_id <> ''`
	sqlAnyTomb    = `SELECT EXISTS (SELECT 1 FROM dltbatch_tombstones)`
	sqlTomb       = `SELECT ` + sqlstore.ColsTombstone + ` FROM dltbatch_tombstones p WHERE p.header_signature = ?`
	sqlTombChange = `SELECT ` + sqlstore.ColsTombstone + ` FROM dltbatch_tombstones p WHERE p.service_id = ? AND p.data_change_id = ? AND p.data_change_id <> ''`

	colsBatch = sqlstore.ColsBatch
	colsOpen  = `o.state, o.version, o.attempt, o.spent, o.failures, o.claim_expires, o.not_before, o.next_check, o.asked_at,
	o.last_post, o.settles_at, o.doubt_attempt, o.doubt_since, o.resend_until, o.resends, o.refused, o.requeued,
	o.submission_error, o.submission_error_message, o.decision, o.receipts, o.prepared, o.claimed_by,
	o.claim_ttl, o.moved_at, o.rollbacks, o.seen_attempt, o.seen_endpoint, o.withdrawn`
	colsFinal = sqlstore.ColsOutcome

	sqlOpenRows = `SELECT ` + colsBatch + `, ` + colsOpen + ` FROM json_each(?) j
	CROSS JOIN dltbatch_open_batches o ON o.seq = j.value CROSS JOIN dltbatch_batches b ON b.seq = o.seq`
	sqlFinalRow = `SELECT ` + colsBatch + `, ` + colsFinal + ` FROM dltbatch_outcomes f JOIN dltbatch_batches b ON b.seq = f.seq WHERE f.seq = ?`

	// CROSS JOIN keeps SQLite from reversing the join, so that the lanes come first. Closed lanes
	// show no rows.
	sqlAttempted    = `SELECT ` + colsClaim + fromAttempted + ` WHERE ` + notClosed
	windowAttempted = `SELECT ` + colsBatch + `, b.footprint, ` + colsOpen + fromAttempted
	windowWaiting   = `SELECT ` + colsBatch + `, b.footprint, ` + colsOpen + fromWaiting
	fromAttempted   = ` FROM json_each(?) j
	CROSS JOIN dltbatch_open_batches o ON o.service_id = j.value AND o.attempt > 0 CROSS JOIN dltbatch_batches b ON b.seq = o.seq`
	fromWaiting = ` FROM json_each(?) j
	CROSS JOIN dltbatch_open_batches o ON ` + areWaiting + ` CROSS JOIN dltbatch_batches b ON b.seq = o.seq`
	// areWaiting is the condition for the first ?2 waiting rows of a lane. It first looks up the
	// last row that is wanted. A list of the rows would be a temporary table for each lane.
	areWaiting = `o.service_id = j.value AND o.created_at <= coalesce((SELECT w.created_at FROM dltbatch_open_batches w
		WHERE w.service_id = j.value AND w.attempt = 0 ORDER BY w.created_at LIMIT 1 OFFSET ?2 - 1), 9223372036854775807)
		AND o.attempt = 0`
	// colsClaim are the columns that a claim reads of every attempted row.
	colsClaim = `b.seq, b.header_signature, b.service_id, b.created_at, b.budget_attempts, b.budget_every_try, ` + sqlstore.TraceParent + `, b.footprint, ` + payloadSize + `,
	o.state, o.version, o.attempt, o.requeued`
	// length does not read the payload itself.
	payloadSize = `coalesce((SELECT length(p.serialized_batch) FROM dltbatch_batch_payloads p WHERE p.seq = b.seq), 0) AS size`
	// sqlWaiting reads the first waiting rows of lanes without their batches. j.key is the index
	// of the lane in the list.
	sqlWaiting = `SELECT j.key AS lane, o.seq, o.created_at, o.state, o.version, o.attempt FROM json_each(?) j
	CROSS JOIN dltbatch_open_batches o ON ` + areWaiting + ` WHERE ` + notClosed
	sqlBatches = `SELECT ` + colsBatch + `, b.footprint, ` + payloadSize + ` FROM json_each(?) j CROSS JOIN dltbatch_batches b ON b.seq = j.value`

	sqlUpdateOpen = `UPDATE dltbatch_open_batches SET state = ?, version = ?, attempt = ?, spent = ?, failures = ?, claim_expires = ?,
	not_before = ?, next_check = ?, asked_at = ?, last_post = ?, settles_at = ?, doubt_attempt = ?, doubt_since = ?,
	resend_until = ?, resends = ?, refused = ?, requeued = ?, submission_error = ?, submission_error_message = ?, decision = ?,
	receipts = ?, due_at = ?, claimed_by = ?, claim_ttl = ?, moved_at = ?, rollbacks = ?,
	seen_attempt = ?, seen_endpoint = ?, withdrawn = ? WHERE seq = ? AND version = ?`
	// These statements write rows that the call has not read: see recordKnown.
	sqlAdvance     = advance + ofOne + ` AND ` + isKnown
	sqlAdvanceMany = advance + ofMany + ` AND ` + isKnown
	advance        = `UPDATE OR FAIL dltbatch_open_batches SET state = ?, version = ?, claim_expires = ?, next_check = ?, last_post = ?, due_at = ?,
	moved_at = ? WHERE `
	sqlFinish     = finish + ofOne + ` AND ` + isKnown
	sqlFinishMany = finish + ofMany + ` AND ` + isKnown
	sqlDelete     = `DELETE FROM dltbatch_open_batches WHERE ` + ofOne
	sqlDeleteMany = `DELETE FROM dltbatch_open_batches WHERE ` + ofMany
	// sqlUnfinish undoes sqlFinishMany. Only rows that sqlFinishMany has inserted are in both
	// tables.
	sqlUnfinish = `DELETE FROM dltbatch_outcomes WHERE seq IN (SELECT o.seq FROM json_each(?) j CROSS JOIN dltbatch_open_batches o ON o.seq = j.value)`
	ofOne       = `seq = ?`
	ofMany      = `seq IN (SELECT value FROM json_each(?))`
	isKnown     = `version = ? AND asked_at = ? AND receipts = 0`
	finish      = `INSERT INTO dltbatch_outcomes (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at,
	final_at, requeued, submission_error, submission_error_message, receipts, orders_settled, quarantined)
	SELECT seq, ?, ?, attempt, spent, failures, asked_at, ?, settles_at, ?, requeued, NULL, '', 0, 0, 0 FROM dltbatch_open_batches WHERE `
	// sqlClaim writes all columns that a claim changes. With OR FAIL SQLite does not first copy
	// each page, which is not needed, since after an error the whole transaction is undone.
	sqlClaim     = claim + ofOne + ` AND version = ?`
	sqlClaimMany = claim + ofMany + ` AND version = ?`
	claim        = `UPDATE OR FAIL dltbatch_open_batches SET state = ?, version = ?, attempt = ?, spent = ?, claim_expires = ?, next_check = ?,
	doubt_attempt = ?, doubt_since = ?, resend_until = ?, resends = ?, due_at = ?, claimed_by = ?,
	claim_ttl = ?, moved_at = ?
	WHERE `
	sqlInsertOpen = `INSERT INTO dltbatch_open_batches (state, version, attempt, spent, failures, claim_expires, not_before, next_check,
	asked_at, last_post, settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued, submission_error,
	submission_error_message, decision, receipts, due_at, claimed_by, claim_ttl, moved_at, rollbacks,
	seen_attempt, seen_endpoint, withdrawn, seq, service_id, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// Only sqlKeepPrepared writes the column prepared. The column is removed with the row.
	sqlKeepPrepared = `UPDATE dltbatch_open_batches SET prepared = ? WHERE seq = ? AND version = ?`
	sqlDeleteOpen   = `DELETE FROM dltbatch_open_batches WHERE seq = ? AND version = ?`
	sqlInsertFinal  = `INSERT INTO dltbatch_outcomes (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at,
	final_at, requeued, submission_error, submission_error_message, receipts, orders_settled, quarantined)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDeleteFinal   = `DELETE FROM dltbatch_outcomes WHERE seq = ?`
	sqlInsertReceipt = `INSERT INTO dltbatch_transaction_receipts (batch_seq, position, transaction_id, result_valid, error_message,
	error_data) VALUES (?, ?, ?, ?, ?, ?)`
	sqlDeleteReceipts = `DELETE FROM dltbatch_transaction_receipts WHERE batch_seq = ?`

	sqlPayloads = `SELECT b.seq, b.header_signature, b.service_id, p.serialized_batch FROM json_each(?) j
	CROSS JOIN dltbatch_batches b ON b.seq = j.value CROSS JOIN dltbatch_batch_payloads p ON p.seq = b.seq`

	sqlClaimedPayloads = `SELECT p.seq, p.serialized_batch FROM json_each(?) j CROSS JOIN dltbatch_batch_payloads p ON p.seq = j.value`

	// sqlLanesFirst and sqlLanesAfter jump from service to service: one lookup for each, however
	// long its lane is.
	sqlLanesFirst = `WITH RECURSIVE lanes (value) AS (SELECT CASE WHEN ` + notAllClosed + `
		THEN (SELECT min(service_id) FROM dltbatch_open_batches) END` + lanesNext + ` AND ` + notClosed + ` LIMIT ?`
	sqlLanesAfter = `WITH RECURSIVE lanes (value) AS (SELECT CASE WHEN ` + notAllClosed + `
		THEN (SELECT min(service_id) FROM dltbatch_open_batches WHERE service_id > ?) END` + lanesNext + ` AND ` + notClosed + ` LIMIT ?`
	// sqlAllLanesFirst and sqlAllLanesAfter return closed lanes, too.
	sqlAllLanesFirst = `WITH RECURSIVE lanes (value) AS (SELECT min(service_id) FROM dltbatch_open_batches` + lanesNext + ` LIMIT ?`
	sqlAllLanesAfter = `WITH RECURSIVE lanes (value) AS (SELECT min(service_id) FROM dltbatch_open_batches WHERE service_id > ?2` + lanesNext + ` LIMIT ?1`
	lanesNext        = `
		UNION ALL
		SELECT (SELECT min(o.service_id) FROM dltbatch_open_batches o WHERE o.service_id > lanes.value) FROM lanes
		WHERE lanes.value IS NOT NULL)
	SELECT j.value FROM lanes j WHERE j.value IS NOT NULL`

	// sqlCounts is one statement, so that a batch that is claimed meanwhile counts once.
	sqlCounts = `SELECT j.value AS service_id, o.state, count(*) AS n FROM json_each(?1) j
	CROSS JOIN dltbatch_open_batches o ON o.service_id = j.value AND o.attempt > 0 GROUP BY 1, 2
	UNION ALL SELECT j.value, 0, (SELECT count(*) FROM (SELECT 1 FROM dltbatch_open_batches w
		WHERE w.service_id = j.value AND w.attempt = 0 LIMIT ?2) d) FROM json_each(?1) j`

	// sqlCountOpen reads the index of all open batches, and the rows of the attempted ones. All
	// other open batches are Queued.
	sqlCountOpen = `WITH lanes AS MATERIALIZED (SELECT o.service_id, min(o.created_at) AS oldest, count(*) AS n
		FROM dltbatch_open_batches o INDEXED BY dltbatch_open_batches_lane GROUP BY o.service_id),
	found AS MATERIALIZED (SELECT a.state, count(*) AS n, count(*) FILTER (WHERE ` + sqlstore.InDoubt + `) AS doubts,
			min(a.doubt_since) FILTER (WHERE ` + sqlstore.InDoubt + `) AS doubt, count(*) FILTER (WHERE a.decision <> '') AS undecided
		FROM dltbatch_open_batches a INDEXED BY dltbatch_open_batches_attempted WHERE a.attempt > 0 GROUP BY a.state)
	SELECT 'state' AS kind, '' AS name, 1 AS code, (SELECT coalesce(sum(n), 0) FROM lanes) - (SELECT coalesce(sum(n), 0) FROM found) AS n, 0 AS at
	UNION ALL SELECT 'state', '', state, n, 0 FROM found
	UNION ALL SELECT 'doubts', '', 0, coalesce(sum(doubts), 0), coalesce(min(doubt), 0) FROM found
	UNION ALL SELECT 'undecided', '', 0, coalesce(sum(undecided), 0), 0 FROM found
	UNION ALL SELECT 'lanes', '', 0, count(*), coalesce(min(oldest), 0) FROM lanes
	UNION ALL SELECT * FROM (SELECT 'lane', service_id, 0, n, oldest FROM lanes ORDER BY oldest, service_id LIMIT 10)
	UNION ALL SELECT 'quarantined', '', 0, count(*), 0 FROM dltbatch_outcomes WHERE quarantined = 1` + sqlstore.CountBeside

	sqlSize = `SELECT p.page_count * s.page_size FROM pragma_page_count p, pragma_page_size s`

	sqlAnyDue = `SELECT EXISTS (SELECT 1 FROM dltbatch_open_batches
	WHERE due_at <= ` + ownClock + ` OR (due_at > ` + ownClock + ` + ?1 AND (state <> ?2 OR claim_expires <= ` + ownClock + ` OR claim_expires = last_post))
		OR (due_at > ` + ownClock + ` + 5000000 AND ` + sqlstore.ClaimAhead + ownClock + `)))`
	sqlDue = `SELECT ` + colsBatch + `, ` + colsOpen + ` FROM (SELECT seq FROM dltbatch_open_batches WHERE due_at <= ?1
			OR (due_at > ?2 AND (state <> ?3 OR claim_expires <= ?1 OR claim_expires = last_post))
			OR (due_at > ?1 + 5000000 AND ` + sqlstore.ClaimAhead + `?1))
		ORDER BY asked_at, created_at, seq LIMIT ?4) d
	CROSS JOIN dltbatch_open_batches o ON o.seq = d.seq CROSS JOIN dltbatch_batches b ON b.seq = d.seq
	ORDER BY o.asked_at, o.created_at, b.header_signature`
	// sqlOwned is sqlDue for named lanes: it reads rows that the monitor owns, due or not, and no
	// live claims.
	sqlOwned = `SELECT ` + colsBatch + `, ` + colsOpen + ` FROM (SELECT r.seq FROM json_each(?) j
		CROSS JOIN dltbatch_open_batches r ON r.service_id = j.value AND r.attempt > 0
		WHERE r.due_at IS NOT NULL AND (r.state <> ? OR r.claim_expires <= ? OR r.claim_expires = r.last_post)
		ORDER BY r.asked_at, r.created_at, r.seq LIMIT ?) d
	CROSS JOIN dltbatch_open_batches o ON o.seq = d.seq CROSS JOIN dltbatch_batches b ON b.seq = d.seq
	ORDER BY o.asked_at, o.created_at, b.header_signature`
	sqlWitnesses = `SELECT w.header_signature FROM dltbatch_open_batches o CROSS JOIN dltbatch_batches own ON own.seq = o.seq
	CROSS JOIN dltbatch_batches w ON w.seq IN (SELECT x.seq FROM dltbatch_batches x WHERE x.service_id = o.service_id AND x.created_at < o.created_at
		ORDER BY x.created_at DESC LIMIT ?5)
	CROSS JOIN dltbatch_outcomes f ON f.seq = w.seq
	WHERE o.seq = ?1 AND own.header_signature = ?2 AND own.service_id = ?3
	AND f.state IN (SELECT value FROM json_each(?4)) AND f.final_at < o.doubt_since ORDER BY w.created_at DESC LIMIT ?6`
	sqlSetCheck = `UPDATE dltbatch_open_batches SET next_check = ?3, due_at = ?4 WHERE seq = ?1 AND version = ?2`
	sqlLease    = `UPDATE dltbatch_open_batches SET asked_at = ?, next_check = ?, due_at = ? WHERE seq = ?`

	sqlOldStreamIDs   = `SELECT stream, id, at FROM dltbatch_stream_ids WHERE at <= ? ORDER BY at LIMIT ?`
	sqlDeleteStreamID = `DELETE FROM dltbatch_stream_ids WHERE stream = ? AND id = ? AND at <= ?`

	// A batch has a row in one of two tables. One statement reads both, because the batch may move
	// meanwhile.
	colsRecord = `SELECT ` + colsBatch + `, ` + sqlstore.Tags + `, ` + colsAny + `, coalesce(o.claimed_by, '') AS claimed_by, ` + colsAnyClaim
	stateOf    = `coalesce(o.state, f.state)`
	colsAny    = stateOf + ` AS state, coalesce(o.version, f.version) AS version, coalesce(o.attempt, f.attempt) AS attempt,
	coalesce(o.spent, f.spent) AS spent, coalesce(o.failures, f.failures) AS failures, coalesce(o.claim_expires, 0) AS claim_expires,
	coalesce(o.not_before, 0) AS not_before, coalesce(o.next_check, 0) AS next_check, coalesce(o.asked_at, f.asked_at) AS asked_at,
	coalesce(o.last_post, f.last_post) AS last_post, coalesce(o.settles_at, f.settles_at) AS settles_at,
	coalesce(o.doubt_attempt, 0) AS doubt_attempt, coalesce(o.doubt_since, 0) AS doubt_since, coalesce(o.resend_until, 0) AS resend_until,
	coalesce(o.resends, 0) AS resends, coalesce(o.refused, 0) AS refused, coalesce(o.requeued, f.requeued) AS requeued,
	coalesce(o.submission_error, f.submission_error) AS submission_error,
	coalesce(o.submission_error_message, f.submission_error_message) AS submission_error_message, coalesce(o.decision, '') AS decision,
	coalesce(o.receipts, f.receipts) AS receipts, coalesce(f.final_at, 0) AS final_at, coalesce(f.quarantined, 0) AS quarantined`
	colsAnyClaim = `coalesce(o.claim_ttl, 0) AS claim_ttl, coalesce(o.moved_at, 0) AS moved_at,
	coalesce(o.rollbacks, 0) AS rollbacks, coalesce(o.seen_attempt, 0) AS seen_attempt,
	coalesce(o.seen_endpoint, '') AS seen_endpoint, coalesce(o.withdrawn, 0) AS withdrawn`
	listAll = colsRecord + ` FROM dltbatch_batches b LEFT JOIN dltbatch_open_batches o ON o.seq = b.seq
	LEFT JOIN dltbatch_outcomes f ON f.seq = b.seq WHERE `
	listOpen = colsRecord + ` FROM dltbatch_open_batches o CROSS JOIN dltbatch_batches b ON b.seq = o.seq
	LEFT JOIN dltbatch_outcomes f ON f.seq = b.seq WHERE `
	// listQuarantined finds batches in quarantine through their own index.
	listQuarantined = colsRecord + ` FROM dltbatch_outcomes f CROSS JOIN dltbatch_batches b ON b.seq = f.seq
	LEFT JOIN dltbatch_open_batches o ON o.seq = f.seq WHERE f.quarantined = 1 AND `

	// listTagged finds batches with a tag through the indexes of tags, in order.
	listTagged = colsRecord + ` FROM dltbatch_batch_tags t CROSS JOIN dltbatch_batches b ON b.seq = t.batch_seq
	LEFT JOIN dltbatch_open_batches o ON o.seq = b.seq LEFT JOIN dltbatch_outcomes f ON f.seq = b.seq WHERE `

	// sqlPrunable finds batches by the rule store.Row.Prunable, through an index.
	sqlPrunable = `SELECT seq, final_at AS at FROM dltbatch_outcomes f WHERE final_at <= ? AND quarantined = 0
	AND NOT EXISTS (SELECT 1 FROM dltbatch_unsettled_batches u WHERE u.batch_seq = f.seq) ORDER BY final_at LIMIT ?`
	sqlBury = `INSERT INTO dltbatch_tombstones (` + sqlstore.BuryInto + `)
	SELECT ` + sqlstore.BuryFrom + ` FROM json_each(?1) j
	CROSS JOIN dltbatch_batches b ON b.seq = j.value CROSS JOIN dltbatch_outcomes f ON f.seq = b.seq
	WHERE true ON CONFLICT (header_signature) DO NOTHING`
	sqlTombsByID          = `SELECT p.header_signature FROM dltbatch_tombstones p WHERE p.header_signature >= ?1 AND p.header_signature <= ?2 ORDER BY p.header_signature LIMIT ?3`
	sqlTombs              = `SELECT ` + sqlstore.ColsTombstone + ` FROM json_each(?1) j CROSS JOIN dltbatch_tombstones p ON p.header_signature = j.value`
	sqlDeletePayload      = `DELETE FROM dltbatch_batch_payloads WHERE seq = ?`
	sqlDeleteTransactions = `DELETE FROM dltbatch_transactions WHERE batch_seq = ?`
	sqlDeleteTags         = `DELETE FROM dltbatch_batch_tags WHERE batch_seq = ?`
	sqlDeleteBatch        = `DELETE FROM dltbatch_batches WHERE seq = ?`
)
