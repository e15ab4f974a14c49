package postgres

import "github.com/dltbatch/dltbatch/internal/sqlstore"

// These are the statements about orders. The comment in queries.go applies to them, too.
const (
	// sqlBeforeOrders is sqlBeforeAdd for orders.
	sqlBeforeOrders = clockOnce + `
	SELECT 0 AS kind, '' AS service_id, t.now AS n FROM t
	UNION ALL SELECT 1, u.s, coalesce((SELECT max(o.created_at) FROM {orders} o WHERE o.party = u.s), 0)
		FROM unnest($1::text[]) AS u (s)
		WHERE (SELECT min(o.created_at) FROM {orders} o WHERE o.created_at >= (SELECT t.now FROM t)) IS NOT NULL
	UNION ALL SELECT 2, '', nextval('{orders_seq}') FROM generate_series(1, $2::bigint)`
	sqlSerialOrders = `SELECT 0 AS kind, '' AS service_id, ` + clock + ` AS n
	UNION ALL SELECT 2, '', nextval('{orders_seq}') FROM generate_series(1, $1::bigint)`
	sqlOrdersTaken       = `SELECT EXISTS (SELECT 1 FROM {orders} o WHERE o.seq = ANY ($1::bigint[]))`
	sqlRaiseOrderNumbers = `SELECT setval('{orders_seq}', m.seq) FROM (SELECT max(o.seq) AS seq FROM {orders} o) m
	WHERE m.seq > (SELECT s.last_value FROM {orders_seq} s)`
	// The bytes of all orders are one value: for each order the hash, then the payload. An Add
	// without a trace context does not name that column.
	sqlInsertOrders       = insertOrders + `)` + insertOrdersSelect + insertOrdersFrom + `)` + insertOrdersAs + `)` + insertOrdersQueued
	sqlInsertOrdersTraced = insertOrders + `, trace_parent)` + insertOrdersSelect + `, nullif(u.trace_parent, '')` +
		insertOrdersFrom + `, $13::text[])` + insertOrdersAs + `, trace_parent)` + insertOrdersQueued
	insertOrders = `WITH added AS (INSERT INTO {orders} (seq, order_id, party, created_at, idempotency_key, priority, urgent,
		deadline, payload_hash, payload`
	insertOrdersSelect = `
	SELECT u.seq, u.id, u.party, u.created_at, u.key, u.priority, u.urgent, u.deadline,
		substring($11::bytea FROM u.at FOR 32), substring($11::bytea FROM u.at + 32 FOR u.size)`
	insertOrdersFrom = `
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::integer[], $7::boolean[], $8::bigint[],
		$9::integer[], $10::integer[]`
	insertOrdersAs     = ` AS u (seq, id, party, created_at, key, priority, urgent, deadline, at, size`
	insertOrdersQueued = `
	ON CONFLICT DO NOTHING RETURNING seq, party, priority, created_at, deadline, urgent, octet_length(payload) AS size),
	queued AS (INSERT INTO {open_orders} (seq, party, priority, created_at, deadline, urgent, size, state, version, batch, place,
		batches, split_group)
		SELECT seq, party, priority, created_at, deadline, urgent, size, 1, $12::bigint, '', 0, 0, '' FROM added)
	SELECT seq FROM added`

	colsOrder     = sqlstore.ColsOrder
	colsOpenOrder = sqlstore.ColsOpenOrder

	// Rows are locked in a fixed order, so that no two calls wait for each other.
	sqlLockOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM {open_orders} q JOIN {orders} o ON o.seq = q.seq
	WHERE q.seq = ANY (ARRAY (SELECT r.seq FROM unnest($1::text[]) AS u (id)
		CROSS JOIN LATERAL (SELECT x.seq FROM {orders} x WHERE x.order_id = u.id OFFSET 0) r)) ORDER BY q.seq FOR UPDATE OF q`
	sqlLockBatchOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM {open_orders} q JOIN {orders} o ON o.seq = q.seq
	WHERE q.seq = ANY (ARRAY (SELECT r.seq FROM unnest($1::text[]) AS u (id)
		CROSS JOIN LATERAL (SELECT x.seq FROM {open_orders} x WHERE x.batch = u.id AND x.batch <> '' AND x.state = 2 OFFSET 0) r))
	ORDER BY q.seq FOR UPDATE OF q`
	sqlSplitOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM (SELECT * FROM {open_orders} x WHERE x.state = 1
		AND x.split_group <> '' AND x.party = $1::text AND (x.deadline = 0 OR x.deadline > $2::bigint) OFFSET 0) q
	CROSS JOIN LATERAL (SELECT * FROM {orders} r WHERE r.seq = q.seq OFFSET 0) o`
	// FETCH ... WITH TIES is needed because the id decides between orders with equal keys, and
	// this table does not have the id.
	sqlNextOrders = `SELECT q.seq, q.size, q.priority, q.created_at, o.order_id FROM (SELECT * FROM {open_orders} x
		WHERE x.state = 1 AND x.party = $1::text AND (x.deadline = 0 OR x.deadline > $2::bigint)
		ORDER BY x.priority DESC, x.created_at FETCH FIRST ($3::bigint) ROWS WITH TIES) q
	CROSS JOIN LATERAL (SELECT r.order_id FROM {orders} r WHERE r.seq = q.seq OFFSET 0) o`
	sqlQueued = `SELECT ` + colsOrder + `, ` + colsOpenOrder + `, o.payload FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT * FROM {open_orders} x WHERE x.seq = u.seq OFFSET 0) q
	CROSS JOIN LATERAL (SELECT * FROM {orders} r WHERE r.seq = u.seq OFFSET 0) o WHERE q.state = 1`

	// sqlPartiesFirst jumps from party to party, as sqlLanesFirst does from lane to lane. OFFSET 0
	// keeps the planner from a join, for which it would read all parties first.
	sqlPartiesFirst = `WITH RECURSIVE parties (party) AS (
		SELECT (SELECT min(x.party) FROM {open_orders} x WHERE x.state = 1)` + partiesNext
	sqlPartiesAfter = `WITH RECURSIVE parties (party) AS (
		SELECT (SELECT min(x.party) FROM {open_orders} x WHERE x.state = 1 AND x.party > $3::text)` + partiesNext
	partiesNext = `
		UNION ALL
		SELECT (SELECT min(x.party) FROM {open_orders} x WHERE x.state = 1 AND x.party > p.party)
		FROM parties p WHERE p.party IS NOT NULL),
	idle AS (SELECT p.party FROM parties p WHERE p.party IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM {unsettled_batches} u WHERE u.party = p.party OFFSET 0) LIMIT $1::bigint)
	SELECT i.party, l.orders, l.bytes, l.urgent,
		coalesce(` + clock + ` - (SELECT min(x.created_at) FROM {open_orders} x WHERE x.state = 1 AND x.party = i.party), 0) AS oldest,
		EXISTS (SELECT 1 FROM {open_orders} x WHERE x.state = 1 AND x.split_group <> '' AND x.party = i.party OFFSET 0) AS split
	FROM idle i CROSS JOIN LATERAL (SELECT count(*) AS orders, coalesce(sum(c.size), 0)::bigint AS bytes,
		coalesce(bool_or(c.urgent), false) AS urgent FROM (SELECT x.size, x.urgent FROM {open_orders} x
			WHERE x.state = 1 AND x.party = i.party ORDER BY x.priority DESC, x.created_at LIMIT $2::bigint) c) l`

	sqlSettleable = `SELECT ` + colsBatch + `, ` + colsOutcome + ` FROM {unsettled_batches} u
	CROSS JOIN LATERAL (SELECT * FROM {outcomes} r WHERE r.seq = u.batch_seq OFFSET 0) f
	CROSS JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = u.batch_seq OFFSET 0) b
	ORDER BY b.created_at, b.header_signature LIMIT $1::bigint`

	sqlUpdateOrders = `UPDATE {open_orders} q SET state = u.state, version = u.version, batch = u.batch, place = u.place,
		batches = u.batches, split_group = u.split_group
	FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::text[], $6::integer[], $7::integer[], $8::text[])
		AS u (seq, was, state, version, batch, place, batches, split_group)
	WHERE q.seq = u.seq AND q.version = u.was`
	sqlDeleteOpenOrders = `DELETE FROM {open_orders} q USING unnest($1::bigint[], $2::bigint[]) AS u (seq, was)
	WHERE q.seq = u.seq AND q.version = u.was`
	sqlInsertFinalOrders = `INSERT INTO {final_orders} (seq, state, version, batch, place, batches, split_group, final_at, error, error_message)
	SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::text[], $5::integer[], $6::integer[], $7::text[],
		$8::bigint[], $9::text[], $10::text[])`

	sqlExpired = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM (SELECT * FROM {open_orders} x
		WHERE x.state = 1 AND x.deadline <> 0 AND x.deadline <= $1::bigint ORDER BY x.deadline LIMIT $2::bigint FOR UPDATE SKIP LOCKED) q
	CROSS JOIN LATERAL (SELECT * FROM {orders} r WHERE r.seq = q.seq OFFSET 0) o`

	// As with sqlPrunable, a transaction that names a known order keeps only this order from
	// removal.
	sqlPrunableOrders = `SELECT f.seq, f.final_at AS at FROM {final_orders} f
	CROSS JOIN LATERAL (SELECT r.seq FROM {orders} r WHERE r.seq = f.seq OFFSET 0) o
	WHERE f.final_at <= $1::bigint AND f.final_at >= $3::bigint ORDER BY f.final_at LIMIT $2::bigint FOR UPDATE OF f, o SKIP LOCKED`
	sqlPruneFinalOrders = `DELETE FROM {final_orders} WHERE seq = ANY ($1::bigint[])`
	sqlPruneOrders      = `DELETE FROM {orders} WHERE seq = ANY ($1::bigint[])`
)
