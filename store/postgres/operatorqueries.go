package postgres

// The statements about operators' acts; the comment in queries.go applies to these, too.
const (
	// notClosed is a condition on the lane u.s. OFFSET 0 keeps the planner from a join: the
	// controls of each lane are looked up.
	notClosed = `NOT EXISTS (SELECT 1 FROM {controls} c WHERE c.everything = true AND c.service_id = '' AND ` + isClosed + ` OFFSET 0)
	AND NOT EXISTS (SELECT 1 FROM {controls} c WHERE c.everything = false AND c.service_id = u.s AND ` + isClosed + ` OFFSET 0)`
	isClosed = `(c.paused_at <> 0 OR c.halted_at <> 0)`

	// sqlTurn makes claims forget where they begin in a lane, and keeps them from the lane
	// until the transaction has ended. A lane that was never claimed from has no row yet.
	sqlTurn = `INSERT INTO {services} AS s (service_id, turn) VALUES ($1::text, 1)
	ON CONFLICT (service_id) DO UPDATE SET turn = s.turn + 1`

	colsControl = `c.everything, c.service_id, c.paused_at, c.paused_by, c.paused_reason, c.policy, c.halted_at, c.halted_by,
	c.halt_reason, c.version`
	sqlControl  = `SELECT ` + colsControl + ` FROM {controls} c WHERE c.everything = $1::boolean AND c.service_id = $2::text`
	sqlControls = `SELECT ` + colsControl + ` FROM {controls} c WHERE c.everything = false AND c.service_id >= $1::text
	AND (c.service_id <> $1::text OR $2::boolean) AND (c.policy <> 0 OR ` + isClosed + `) ORDER BY c.service_id LIMIT $3::bigint`
	sqlControlsOf = `SELECT ` + colsControl + ` FROM unnest($1::text[]) AS u (s)
	CROSS JOIN LATERAL (SELECT * FROM {controls} r WHERE r.everything = false AND r.service_id = u.s OFFSET 0) c`
	// A control is changed under its lock, so a row must exist; a row with nothing set is
	// removed by the same transaction.
	sqlNewControl = `INSERT INTO {controls} (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
	halt_reason, version) VALUES ($1::boolean, $2::text, 0, '', '', 0, 0, '', '', 0) ON CONFLICT DO NOTHING`
	sqlLockControl = sqlControl + ` FOR UPDATE`
	sqlSetControl  = `UPDATE {controls} SET paused_at = $3::bigint, paused_by = $4::text, paused_reason = $5::text, policy = $6::bigint,
	halted_at = $7::bigint, halted_by = $8::text, halt_reason = $9::text, version = $10::bigint WHERE everything = $1::boolean AND service_id = $2::text`
	sqlDeleteControl = `DELETE FROM {controls} WHERE everything = $1::boolean AND service_id = $2::text`
	// The first halt stays, even if two calls did not see each other; after a release that
	// neither saw the lane is halted anew. In one order, so that no two calls wait for each
	// other.
	sqlHalt = `INSERT INTO {controls} AS c (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
		halt_reason, version)
	SELECT false, u.s, 0, '', '', 0, u.at, u.id, u.reason, u.at FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
		AS u (s, at, id, reason) ORDER BY u.s COLLATE "C"
	ON CONFLICT (everything, service_id) DO UPDATE SET halted_at = excluded.halted_at, halted_by = excluded.halted_by,
		halt_reason = excluded.halt_reason, version = greatest(c.version + 1, excluded.version) WHERE c.halted_at = 0`

	sqlInsertLaneAct = `INSERT INTO {lane_acts} (everything, service_id, position, action, actor, reason, at, batch, policy)
	SELECT $1::boolean, $2::text, (SELECT coalesce(max(x.position), 0) + 1 FROM {lane_acts} x
		WHERE x.everything = $1::boolean AND x.service_id = $2::text),
		$3::text, $4::text, $5::text, $6::bigint, $7::text, $8::bigint RETURNING position`
	sqlTrimLaneActs = `DELETE FROM {lane_acts} WHERE everything = $1::boolean AND service_id = $2::text AND position <= $3::bigint`
	sqlLaneActs     = `SELECT action, actor, reason, at, batch, policy FROM {lane_acts}
	WHERE everything = $1::boolean AND service_id = $2::text ORDER BY position`
	sqlPruneLaneActs = `DELETE FROM {lane_acts} WHERE ctid = ANY (ARRAY (SELECT x.ctid FROM {lane_acts} x
	WHERE x.at <= $1::bigint ORDER BY x.at LIMIT $2::bigint FOR UPDATE SKIP LOCKED))`

	sqlInsertBatchAct = `INSERT INTO {batch_acts} (batch_seq, position, action, actor, reason, at, from_state, to_state, at_end)
	SELECT $1::bigint, (SELECT coalesce(max(x.position), 0) + 1 FROM {batch_acts} x WHERE x.batch_seq = $1::bigint),
		$2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint, $8::boolean RETURNING position`
	sqlTrimBatchActs = `DELETE FROM {batch_acts} WHERE batch_seq = $1::bigint AND position <= $2::bigint`
	sqlBatchActs     = `SELECT action, actor, reason, at, from_state, to_state, at_end FROM {batch_acts}
	WHERE batch_seq = $1::bigint ORDER BY position`
	sqlPruneBatchActs = `DELETE FROM {batch_acts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {batch_acts} x WHERE x.batch_seq = u.seq OFFSET 0) r))`

	// $2 counts a batch's reports within the call.
	sqlInsertAttempts = `INSERT INTO {attempts} (batch_seq, position, attempt, at, kind, status_code, code, endpoint, took, answer, instance)
	SELECT u.seq, u.n + (SELECT coalesce(max(x.position), 0) FROM {attempts} x WHERE x.batch_seq = u.seq), u.attempt, u.at, u.kind,
		u.status_code, u.code, u.endpoint, u.took, u.answer, u.instance
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[],
		$10::text[], $11::text[]) AS u (seq, n, attempt, at, kind, status_code, code, endpoint, took, answer, instance)
	RETURNING batch_seq, position`
	// The first report stays.
	sqlTrimAttempts = `DELETE FROM {attempts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, old)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {attempts} x WHERE x.batch_seq = u.seq AND x.position BETWEEN 2 AND u.old OFFSET 0) r))`
	sqlAttempts = `SELECT attempt, at, kind, status_code, code, endpoint, took, answer, instance FROM {attempts}
	WHERE batch_seq = $1::bigint ORDER BY position`
	sqlPruneAttempts = `DELETE FROM {attempts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {attempts} x WHERE x.batch_seq = u.seq OFFSET 0) r))`

	sqlMoveToEnd = `UPDATE {batches} SET created_at = $2::bigint WHERE seq = $1::bigint`

	// sqlLook is sqlGet with all columns.
	sqlLook = `SELECT ` + colsBatch + `, ` + colsAny + `, a.prepared, coalesce(a.claimed_by, ''), coalesce(a.at_end, false),
	` + colsAnyClaim + `,
	coalesce(f.final_at, 0), coalesce(f.quarantined, false), coalesce(f.orders_settled, false), b.footprint, ` + clock + `
	FROM {batches} b` + joinRows + `
	WHERE b.id_hash = $1::uuid AND b.header_signature = $2::text AND b.service_id = $3::text`
)
