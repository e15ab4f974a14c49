package sqlite

import "github.com/dltbatch/dltbatch/internal/sqlstore"

// These are the statements about operators' acts. The comment in queries.go applies to them, too.
const (
	// notClosed is the condition that the lane j.value is not closed.
	notClosed = notAllClosed + ` AND NOT EXISTS (SELECT 1 FROM dltbatch_controls c WHERE c.everything = 0 AND c.service_id = j.value
		AND ` + sqlstore.IsClosed + `)`
	notAllClosed = `NOT EXISTS (SELECT 1 FROM dltbatch_controls c WHERE c.everything = 1 AND c.service_id = '' AND ` + sqlstore.IsClosed + `)`

	// These statements read the indexes in the order of lanes, and look up the first row of each
	// lane.
	briefCounts = `SELECT g.service_id AS lane, g.n, g.oldest, ` + sqlstore.BriefCols + ` FROM (SELECT u.service_id, count(*) AS n, min(u.created_at) AS oldest
		FROM (SELECT w.service_id, w.created_at FROM dltbatch_open_batches w INDEXED BY dltbatch_open_batches_lane WHERE `
	briefCountsEnd = ` ORDER BY w.service_id, w.created_at LIMIT ?::bigint) u GROUP BY u.service_id ORDER BY u.service_id LIMIT ?::bigint) g
	CROSS JOIN dltbatch_open_batches a INDEXED BY dltbatch_open_batches_lane ON a.service_id = g.service_id AND a.created_at = g.oldest ORDER BY g.service_id`
	briefRows = `SELECT ` + sqlstore.BriefCols + ` FROM dltbatch_open_batches a INDEXED BY dltbatch_open_batches_attempted WHERE a.attempt > 0 AND `

	sqlHalt = `INSERT INTO dltbatch_controls AS c (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
		halt_reason, version)
	VALUES (0, ?1, 0, '', '', 0, ?2, ?3, ?4, ?2)
	ON CONFLICT (everything, service_id) DO UPDATE SET halted_at = excluded.halted_at, halted_by = excluded.halted_by,
		halt_reason = excluded.halt_reason, version = max(c.version + 1, excluded.version) WHERE c.halted_at = 0`

	sqlPruneLaneActs = `DELETE FROM dltbatch_lane_acts WHERE (everything, service_id, position) IN
	(SELECT everything, service_id, position FROM dltbatch_lane_acts WHERE at <= ? ORDER BY at LIMIT ?)`

	sqlDeleteBatchActs = `DELETE FROM dltbatch_batch_acts WHERE batch_seq = ?`

	sqlInsertAttempt = `INSERT INTO dltbatch_attempts (batch_seq, position, attempt, at, kind, status_code, code, endpoint, took, answer, instance)
	VALUES (?1, (SELECT coalesce(max(x.position), 0) + 1 FROM dltbatch_attempts x WHERE x.batch_seq = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`
	// sqlTrimAttempts keeps the first report of a batch.
	sqlTrimAttempts = `DELETE FROM dltbatch_attempts WHERE batch_seq = ?1
	AND position BETWEEN 2 AND (SELECT max(x.position) FROM dltbatch_attempts x WHERE x.batch_seq = ?1) - ?2`
	sqlDeleteAttempts = `DELETE FROM dltbatch_attempts WHERE batch_seq = ?`

	sqlLook = `SELECT ` + colsBatch + `, ` + sqlstore.Tags + `, ` + colsAny + `, o.prepared, coalesce(o.claimed_by, '') AS claimed_by, ` + colsAnyClaim + `,
	coalesce(f.orders_settled, 0) AS orders_settled, b.footprint, ` + ownClock + ` AS now
	FROM dltbatch_batches b LEFT JOIN dltbatch_open_batches o ON o.seq = b.seq LEFT JOIN dltbatch_outcomes f ON f.seq = b.seq WHERE b.id_hash = unhex(?)`
)
