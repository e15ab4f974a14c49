package postgres

// These statements find lanes, lock them, and read where their open work begins.
const (
	// sqlLanesFirst and sqlLanesAfter jump from service to service in both tables, like a merge of
	// two lists: one lookup for each service, however long its lane is.
	sqlLanesFirst = lanesFirst + lanesNext + ` AND ` + notClosed + ` LIMIT $1::bigint`
	sqlLanesAfter = lanesAfter + lanesNext + ` AND ` + notClosed + ` LIMIT $1::bigint`
	// sqlAllLanesFirst and sqlAllLanesAfter return closed lanes, too.
	sqlAllLanesFirst = lanesFirst + lanesNext + ` LIMIT $1::bigint`
	sqlAllLanesAfter = lanesAfter + lanesNext + ` LIMIT $1::bigint`
	// sqlLanesBetween returns the lanes between two services.
	sqlLanesBetween = lanesBetween + lanesStep + lanesBelow + lanesStepAttempted + lanesBelow + lanesFound + ` AND ` + notClosed + ` LIMIT $1::bigint`
	// sqlKnownLanes reports for each lane whether it has open batches from its floor on, and
	// whether there may be other lanes between this lane and the next. It does not read the dead
	// rows before a floor.
	sqlKnownLanes = `SELECT ` + notClosed + ` AND coalesce(
			(SELECT true FROM {waiting_batches} w WHERE w.service_id = u.s AND w.created_at >= u.low LIMIT 1),
			(SELECT true FROM {attempted_batches} a WHERE a.service_id = u.s AND a.created_at >= u.low LIMIT 1), false) AS open,
		coalesce((SELECT true FROM {waiting_batches} w WHERE w.service_id > u.s AND w.service_id < u.next LIMIT 1),
			(SELECT true FROM {attempted_batches} a WHERE a.service_id > u.s AND a.service_id < u.next LIMIT 1), false) AS more
	FROM unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY AS u (s, low, next, n) ORDER BY u.n`
	lanesFirst = `WITH RECURSIVE lanes (w, a) AS (
		SELECT (SELECT min(w.service_id) FROM {waiting_batches} w), (SELECT min(a.service_id) FROM {attempted_batches} a)`
	lanesAfter = `WITH RECURSIVE lanes (w, a) AS (
		SELECT (SELECT min(w.service_id) FROM {waiting_batches} w WHERE w.service_id > $2::text),
			(SELECT min(a.service_id) FROM {attempted_batches} a WHERE a.service_id > $2::text)`
	lanesBetween = `WITH RECURSIVE lanes (w, a) AS (
		SELECT (SELECT min(w.service_id) FROM {waiting_batches} w WHERE w.service_id > $2::text` + lanesBelow + `),
			(SELECT min(a.service_id) FROM {attempted_batches} a WHERE a.service_id > $2::text` + lanesBelow + `)`
	lanesBelow = ` AND service_id < $3::text`
	lanesNext  = lanesStep + lanesStepAttempted + lanesFound
	lanesStep  = `
		UNION ALL
		SELECT CASE WHEN l.w <= l.a OR l.a IS NULL
				THEN (SELECT min(w.service_id) FROM {waiting_batches} w WHERE w.service_id > l.w`
	lanesStepAttempted = `) ELSE l.w END,
			CASE WHEN l.a <= l.w OR l.w IS NULL
				THEN (SELECT min(a.service_id) FROM {attempted_batches} a WHERE a.service_id > l.a`
	lanesFound = `) ELSE l.a END
		FROM lanes l WHERE least(l.w, l.a) IS NOT NULL)
	SELECT u.s FROM (SELECT least(l.w, l.a) AS s FROM lanes l) u WHERE u.s IS NOT NULL`

	// These statements are sent outside of a transaction, with whatever plan the driver has kept:
	// EXISTS reads one row, however the plan finds it.
	sqlAnyOpen = `SELECT EXISTS (SELECT 1 FROM {waiting_batches}) OR EXISTS (SELECT 1 FROM {attempted_batches})`
	// The incarnation is compared because a restarted server may assign lower numbers than before.
	sqlAnyAttempted = `SELECT ` + sqlIncarnation + ` <> $2::bigint OR EXISTS (SELECT 1 FROM {attempted_batches} a WHERE a.made_by >= $1::bigint)`
	// sqlUnderWay reads in one statement the open rows, and the transactions that may have made
	// rows which the statement does not see. It always returns at least one row, for these
	// transactions.
	sqlUnderWay = `SELECT coalesce(x.seq, 0) AS seq, coalesce(x.made_by, 0) AS made_by, txid_snapshot_xmin(s.s) AS oldest, txid_snapshot_xmax(s.s) AS later,
		` + sqlIncarnation + ` AS started
	FROM (SELECT txid_current_snapshot() AS s OFFSET 0) s LEFT JOIN (
		(SELECT a.seq, a.made_by FROM {attempted_batches} a WHERE a.made_by >= $1::bigint ORDER BY a.made_by LIMIT $3::bigint)
		UNION ALL SELECT r.seq, r.made_by FROM unnest($2::bigint[]) AS u (seq)
			CROSS JOIN LATERAL (SELECT * FROM {attempted_batches} y WHERE y.seq = u.seq AND y.made_by + 0 < $1::bigint OFFSET 0) r) x ON true`

	// sqlLockLanes locks the lanes that no other claim has locked. One more row says which
	// transactions may still be adding: see package position. The statement takes its own
	// transaction number after the transaction began, and after its snapshot.
	sqlLockLanes = `WITH l AS (SELECT s.service_id, ` + clock + ` AS at, s.requeues FROM {services} s
		WHERE s.service_id = ANY ($1::text[]) FOR NO KEY UPDATE SKIP LOCKED)
	SELECT l.service_id, l.at, l.requeues, 0 AS oldest FROM l
	UNION ALL SELECT '', ` + sqlIncarnation + `, txid_current(), txid_snapshot_xmin(txid_current_snapshot())`
	// sqlFloors returns the lanes that have not changed since their floors became known.
	sqlFloors = `SELECT u.n, u.low FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS u (s, low, requeues, clock, n)
	CROSS JOIN LATERAL (SELECT r.requeues FROM {services} r WHERE r.service_id = u.s OFFSET 0) l
	WHERE l.requeues = u.requeues AND u.clock <= ` + clock + ` AND ` + sqlIncarnation + ` = $5::bigint`
	// sqlAdders returns the transactions that hold the lock which beginAdd takes. It also reports
	// whether pg_locks shows a transaction that certainly runs, which it finds by the last 32 bits
	// of the transaction's number.
	sqlAdders = `SELECT coalesce(string_agg(l.virtualtransaction, ' ') FILTER (WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'
		AND l.relation = '{waiting_batches}'::regclass AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())), '') AS names,
		coalesce(bool_or(l.locktype = 'transactionid' AND l.transactionid::text = $1::text), false) AS everything
	FROM pg_locks l WHERE l.granted`
	// A lane that has a row in services is not searched for open batches, since that may take
	// long.
	sqlLanesThere = `SELECT u.s AS service_id, u.there, CASE WHEN u.there THEN false ELSE ` + isOpen + ` END AS open
	FROM ` + lanesThere + ` WHERE ` + notClosed
	lanesThere = `(SELECT u.s, coalesce((SELECT true FROM {services} s WHERE s.service_id = u.s LIMIT 1), false) AS there
		FROM unnest($1::text[]) AS u (s) OFFSET 0) u`
	// isOpen does not use EXISTS, since the planner may turn it into a hash of the whole table.
	isOpen = `coalesce((SELECT true FROM {waiting_batches} w WHERE w.service_id = u.s LIMIT 1),
			(SELECT true FROM {attempted_batches} a WHERE a.service_id = u.s LIMIT 1), false)`
	// sqlNewLanes inserts the rows in a fixed order, so that no two calls wait for each other.
	sqlNewLanes = `INSERT INTO {services} (service_id) SELECT u.s FROM ` + lanesThere + `
	WHERE ` + notClosed + ` AND CASE WHEN u.there THEN false ELSE ` + isOpen + ` END ORDER BY u.s COLLATE "C" ON CONFLICT DO NOTHING`
)
