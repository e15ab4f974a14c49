package postgres

import "github.com/dltbatch/dltbatch/internal/sqlstore"

// These are the statements about operators' acts. The comment in queries.go applies to them, too.
const (
	// notClosed is the condition that the lane u.s is not closed. OFFSET 0 makes the planner look
	// up the controls of each lane instead of joining them.
	notClosed = `NOT EXISTS (SELECT 1 FROM {controls} c WHERE c.everything = true AND c.service_id = '' AND ` + sqlstore.IsClosed + ` OFFSET 0)
	AND NOT EXISTS (SELECT 1 FROM {controls} c WHERE c.everything = false AND c.service_id = u.s AND ` + sqlstore.IsClosed + ` OFFSET 0)`
	// sqlCountRequeue makes claims forget where the open batches of a lane begin, and keeps claims
	// from the lane until the transaction has ended. A lane from which no claim was ever made gets
	// its row here.
	sqlCountRequeue = `INSERT INTO {services} AS s (service_id, requeues) VALUES ($1::text, 1)
	ON CONFLICT (service_id) DO UPDATE SET requeues = s.requeues + 1`
	// sqlHalt keeps the first halt of a lane, even if two calls did not see each other. After a
	// release that neither call saw, the lane is halted again. Rows are written in a fixed order,
	// so that no two calls wait for each other.
	sqlHalt = `INSERT INTO {controls} AS c (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
		halt_reason, version)
	SELECT false, u.s, 0, '', '', 0, u.at, u.id, u.reason, u.at FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
		AS u (s, at, id, reason) ORDER BY u.s COLLATE "C"
	ON CONFLICT (everything, service_id) DO UPDATE SET halted_at = excluded.halted_at, halted_by = excluded.halted_by,
		halt_reason = excluded.halt_reason, version = greatest(c.version + 1, excluded.version) WHERE c.halted_at = 0`

	sqlPruneLaneActs = `DELETE FROM {lane_acts} WHERE ctid = ANY (ARRAY (SELECT x.ctid FROM {lane_acts} x
	WHERE x.at <= $1::bigint ORDER BY x.at LIMIT $2::bigint FOR UPDATE SKIP LOCKED))`

	sqlPruneBatchActs = `DELETE FROM {batch_acts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {batch_acts} x WHERE x.batch_seq = u.seq OFFSET 0) r))`

	sqlInsertAttempts = `INSERT INTO {attempts} (batch_seq, position, attempt, at, kind, status_code, code, endpoint, took, answer, instance)
	SELECT u.seq, row_number() OVER (PARTITION BY u.seq ORDER BY u.n) + (SELECT coalesce(max(x.position), 0) FROM {attempts} x WHERE x.batch_seq = u.seq), u.attempt, u.at, u.kind,
		u.status_code, u.code, u.endpoint, u.took, u.answer, u.instance
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::text[],
		$10::text[]) WITH ORDINALITY AS u (seq, attempt, at, kind, status_code, code, endpoint, took, answer, instance, n)`
	// sqlTrimAttempts keeps the first report of a batch.
	sqlTrimAttempts = `DELETE FROM {attempts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, most)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {attempts} x WHERE x.batch_seq = u.seq AND x.position BETWEEN 2 AND
		(SELECT max(y.position) FROM {attempts} y WHERE y.batch_seq = u.seq) - u.most OFFSET 0) r))`
	sqlPruneAttempts = `DELETE FROM {attempts} WHERE ctid = ANY (ARRAY (SELECT r.ctid FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT x.ctid FROM {attempts} x WHERE x.batch_seq = u.seq OFFSET 0) r))`

	// These statements read the tables in the order of their indexes, which is the order of lanes.
	briefCounts    = `SELECT u.service_id AS lane, count(*) AS n, min(u.created_at) AS oldest FROM (SELECT w.service_id, w.created_at FROM {waiting_batches} w WHERE `
	briefCountsEnd = ` ORDER BY w.service_id, w.created_at, w.seq LIMIT ?::bigint) u GROUP BY u.service_id ORDER BY u.service_id LIMIT ?::bigint`
	briefRows      = `SELECT ` + sqlstore.BriefCols + ` FROM {attempted_batches} a WHERE `

	// sqlCountOpen reads the waiting and the attempted rows from end to end: once through both for
	// the lanes, and once through the attempted rows for their states. All other open batches are
	// Queued.
	sqlCountOpen = `WITH lanes AS MATERIALIZED (SELECT u.service_id, min(u.created_at) AS oldest, count(*) AS n
		FROM (SELECT w.service_id, w.created_at FROM {waiting_batches} w
			UNION ALL SELECT b.service_id, b.created_at FROM {attempted_batches} b) u GROUP BY u.service_id),
	found AS MATERIALIZED (SELECT a.state, count(*) AS n, count(*) FILTER (WHERE ` + sqlstore.InDoubt + `) AS doubts,
			min(a.doubt_since) FILTER (WHERE ` + sqlstore.InDoubt + `) AS doubt, count(*) FILTER (WHERE a.decision <> '') AS undecided
		FROM {attempted_batches} a GROUP BY a.state)
	SELECT 'state' AS kind, '' AS name, 1 AS code, ((SELECT coalesce(sum(n), 0) FROM lanes) - (SELECT coalesce(sum(n), 0) FROM found))::bigint AS n, 0::bigint AS at
	UNION ALL SELECT 'state', '', state, n, 0 FROM found
	UNION ALL SELECT 'doubts', '', 0, coalesce(sum(doubts), 0)::bigint, coalesce(min(doubt), 0) FROM found
	UNION ALL SELECT 'undecided', '', 0, coalesce(sum(undecided), 0)::bigint, 0 FROM found
	UNION ALL SELECT 'lanes', '', 0, count(*), coalesce(min(oldest), 0) FROM lanes
	UNION ALL (SELECT 'lane', service_id, 0, n, oldest FROM lanes ORDER BY oldest, service_id LIMIT 10)
	UNION ALL SELECT 'quarantined', '', 0, count(*), 0 FROM {outcomes} WHERE quarantined` + sqlstore.CountBeside
	sqlSizes = `SELECT u.name, coalesce(pg_total_relation_size(to_regclass(u.rel)), 0) AS bytes, coalesce(pg_stat_get_dead_tuples(to_regclass(u.rel)), 0) AS dead
	FROM (VALUES ('batches', '{batches}'), ('transactions', '{transactions}'), ('batch_tags', '{batch_tags}'), ('services', '{services}'), ('waiting_batches',
		'{waiting_batches}'), ('attempted_batches', '{attempted_batches}'), ('outcomes', '{outcomes}'), ('transaction_receipts',
		'{transaction_receipts}'), ('batch_acts', '{batch_acts}'), ('attempts', '{attempts}'), ('controls', '{controls}'),
		('lane_acts', '{lane_acts}'), ('tombstones', '{tombstones}'), ('orders', '{orders}'), ('open_orders', '{open_orders}'),
		('final_orders', '{final_orders}'), ('unsettled_batches', '{unsettled_batches}'), ('streams', '{streams}'),
		('stream_ids', '{stream_ids}'), ('texts', '{texts}')) AS u (name, rel) ORDER BY u.name`

	sqlLook = `SELECT ` + colsBatch + `, ` + sqlstore.Tags + `, ` + colsAny + `, a.prepared, coalesce(a.claimed_by, '') AS claimed_by,
	` + colsAnyClaim + `,
	coalesce(f.orders_settled, false) AS orders_settled, b.footprint, ` + clock + ` AS now
	FROM {batches} b` + joinRows + `
	WHERE b.id_hash = $1::uuid`
)
