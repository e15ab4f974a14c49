package sqlite

// The statements about operators' acts; the comment in queries.go applies to these, too.
const (
	isClosed = `(c.paused_at <> 0 OR c.halted_at <> 0)`
	// notClosed is a condition on the lane j.value.
	notClosed = notAllClosed + ` AND NOT EXISTS (SELECT 1 FROM controls c WHERE c.everything = 0 AND c.service_id = j.value
		AND ` + isClosed + `)`
	notAllClosed = `NOT EXISTS (SELECT 1 FROM controls c WHERE c.everything = 1 AND c.service_id = '' AND ` + isClosed + `)`

	colsControl = `c.everything, c.service_id, c.paused_at, c.paused_by, c.paused_reason, c.policy, c.halted_at, c.halted_by,
	c.halt_reason, c.version`
	sqlControl  = `SELECT ` + colsControl + ` FROM controls c WHERE c.everything = ? AND c.service_id = ?`
	sqlControls = `SELECT ` + colsControl + ` FROM controls c WHERE c.everything = 0 AND c.service_id >= ?
	AND (c.service_id <> ? OR ?) AND (c.policy <> 0 OR ` + isClosed + `) ORDER BY c.service_id LIMIT ?`
	sqlSetControl = `INSERT INTO controls (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
	halt_reason, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (everything, service_id) DO UPDATE SET paused_at = excluded.paused_at,
	paused_by = excluded.paused_by, paused_reason = excluded.paused_reason, policy = excluded.policy,
	halted_at = excluded.halted_at, halted_by = excluded.halted_by, halt_reason = excluded.halt_reason, version = excluded.version`
	sqlDeleteControl = `DELETE FROM controls WHERE everything = ? AND service_id = ?`

	sqlInsertLaneAct = `INSERT INTO lane_acts (everything, service_id, position, action, actor, reason, at, batch, policy)
	VALUES (?, ?, (SELECT coalesce(max(x.position), 0) + 1 FROM lane_acts x WHERE x.everything = ? AND x.service_id = ?),
		?, ?, ?, ?, ?, ?) RETURNING position`
	sqlTrimLaneActs = `DELETE FROM lane_acts WHERE everything = ? AND service_id = ? AND position <= ?`
	sqlLaneActs     = `SELECT action, actor, reason, at, batch, policy FROM lane_acts WHERE everything = ? AND service_id = ?
	ORDER BY position`
	sqlOldLaneActs   = `SELECT everything, service_id, position FROM lane_acts WHERE at <= ? ORDER BY at LIMIT ?`
	sqlDeleteLaneAct = `DELETE FROM lane_acts WHERE everything = ? AND service_id = ? AND position = ?`

	sqlSeqByKey       = `SELECT seq FROM batches WHERE id_hash = ? AND header_signature = ? AND service_id = ?`
	sqlInsertBatchAct = `INSERT INTO batch_acts (batch_seq, position, action, actor, reason, at, from_state, to_state, at_end)
	VALUES (?, (SELECT coalesce(max(x.position), 0) + 1 FROM batch_acts x WHERE x.batch_seq = ?), ?, ?, ?, ?, ?, ?, ?) RETURNING position`
	sqlTrimBatchActs   = `DELETE FROM batch_acts WHERE batch_seq = ? AND position <= ?`
	sqlBatchActs       = `SELECT action, actor, reason, at, from_state, to_state, at_end FROM batch_acts WHERE batch_seq = ? ORDER BY position`
	sqlDeleteBatchActs = `DELETE FROM batch_acts WHERE batch_seq = ?`

	sqlInsertAttempt = `INSERT INTO attempts (batch_seq, position, attempt, at, kind, status_code, code, endpoint, took, answer, instance)
	VALUES (?, (SELECT coalesce(max(x.position), 0) + 1 FROM attempts x WHERE x.batch_seq = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)
	RETURNING position`
	sqlTrimAttempts = `DELETE FROM attempts WHERE batch_seq = ? AND position BETWEEN 2 AND ?` // the first stays
	sqlAttempts     = `SELECT attempt, at, kind, status_code, code, endpoint, took, answer, instance FROM attempts
	WHERE batch_seq = ? ORDER BY position`
	sqlDeleteAttempts = `DELETE FROM attempts WHERE batch_seq = ?`

	sqlMoveToEnd = `UPDATE batches SET created_at = ? WHERE seq = ?`

	// sqlLookOpen and sqlLookFinal are sqlOpenRow and sqlFinalRow with the footprint.
	sqlLookOpen = `SELECT ` + colsBatch + `, b.footprint, ` + colsOpen + ` FROM open_batches o
	JOIN batches b ON b.seq = o.seq WHERE o.seq = ?`
	sqlLookFinal = `SELECT ` + colsBatch + `, b.footprint, ` + colsFinal + ` FROM outcomes f
	JOIN batches b ON b.seq = f.seq WHERE f.seq = ?`
)
