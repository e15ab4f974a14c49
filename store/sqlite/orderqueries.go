package sqlite

// The statements about orders; the comment in queries.go applies to these, too.
const (
	sqlAnyOrderLast = `SELECT coalesce(max(created_at), 0) FROM orders
	WHERE seq = (SELECT max(seq) FROM orders)`
	sqlPartyLasts = `SELECT j.value AS service_id, coalesce((SELECT max(o.created_at) FROM orders o WHERE o.party = j.value), 0) AS created_at
	FROM json_each(?) j`
	sqlInsertOrder = `INSERT INTO orders (order_id, party, created_at, idempotency_key, priority, urgent, deadline, payload_hash)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq`
	sqlInsertOrderPayload = `INSERT INTO order_payloads (seq, payload) VALUES (?, ?)`
	sqlInsertOpenOrder    = `INSERT INTO open_orders (seq, party, priority, created_at, deadline, urgent, size, state, version)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSameOrder    = `SELECT party = ? AND payload_hash = ? FROM orders WHERE order_id = ?`
	sqlSameOrderKey = `SELECT payload_hash = ? FROM orders WHERE party = ? AND idempotency_key = ? AND idempotency_key <> ''`

	colsOrder     = `o.seq, o.order_id, o.party, o.created_at, o.idempotency_key, o.priority, o.urgent, o.deadline`
	colsOpenOrder = `q.state, q.version, q.batch, q.place, q.batches, q.split_group`

	sqlOpenOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM json_each(?) j
	CROSS JOIN orders o ON o.order_id = j.value CROSS JOIN open_orders q ON q.seq = o.seq`
	sqlBatchOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM open_orders q
	CROSS JOIN orders o ON o.seq = q.seq WHERE q.state = 2 AND q.batch <> '' AND q.batch = ? ORDER BY q.place`
	sqlSplitOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM open_orders q
	CROSS JOIN orders o ON o.seq = q.seq WHERE q.state = 1 AND q.split_group <> '' AND q.party = ? AND (q.deadline = 0 OR q.deadline > ?)`
	sqlNextOrders = `SELECT q.seq, q.size, q.priority, q.created_at FROM open_orders q WHERE q.state = 1 AND q.party = ? AND (q.deadline = 0 OR q.deadline > ?)
	ORDER BY q.priority DESC, q.created_at LIMIT ?`
	sqlQueued = `SELECT ` + colsOrder + `, ` + colsOpenOrder + `, p.payload FROM json_each(?) j
	CROSS JOIN open_orders q ON q.seq = j.value CROSS JOIN orders o ON o.seq = q.seq CROSS JOIN order_payloads p ON p.seq = q.seq
	WHERE +q.state = 1` // the sign keeps SQLite from an index on state
	// Like lanes, it jumps from party to party.
	sqlPartiesFirst = `WITH RECURSIVE parties (party) AS (SELECT min(party) FROM open_orders WHERE state = 1` + partiesNext
	sqlPartiesAfter = `WITH RECURSIVE parties (party) AS (SELECT min(party) FROM open_orders WHERE state = 1 AND party > ?` + partiesNext
	partiesNext     = `
		UNION ALL
		SELECT (SELECT min(o.party) FROM open_orders o WHERE o.state = 1 AND o.party > parties.party) FROM parties
		WHERE parties.party IS NOT NULL)
	SELECT party FROM parties WHERE party IS NOT NULL
	AND NOT EXISTS (SELECT 1 FROM unsettled_batches u WHERE u.party = parties.party) LIMIT ?`
	sqlPartyLoad = `SELECT count(*) AS orders, coalesce(sum(d.size), 0) AS bytes, coalesce(max(d.urgent), 0) AS urgent,
	coalesce((SELECT min(q.created_at) FROM open_orders q WHERE q.state = 1 AND q.party = ?), 0) AS oldest,
	EXISTS (SELECT 1 FROM open_orders q WHERE q.state = 1 AND q.split_group <> '' AND q.party = ?) AS split
	FROM (SELECT q.size, q.urgent FROM open_orders q WHERE q.state = 1 AND q.party = ?
		ORDER BY q.priority DESC, q.created_at LIMIT ?) d`

	sqlInsertUnsettled = `INSERT INTO unsettled_batches (batch_seq, party) SELECT seq, service_id FROM batches
	WHERE id_hash = ? AND header_signature = ? ON CONFLICT DO NOTHING`
	sqlDeleteUnsettled = `DELETE FROM unsettled_batches WHERE batch_seq = ?`
	// Batches in flight are sorted here, and not read along the index by age.
	sqlSettleable = `SELECT ` + colsBatch + `, ` + colsFinal + ` FROM (SELECT u.batch_seq, b.created_at FROM unsettled_batches u
		CROSS JOIN outcomes f ON f.seq = u.batch_seq CROSS JOIN batches b ON b.seq = u.batch_seq
		ORDER BY b.created_at, b.header_signature LIMIT ?) d
	CROSS JOIN outcomes f ON f.seq = d.batch_seq CROSS JOIN batches b ON b.seq = d.batch_seq ORDER BY b.created_at, b.header_signature`

	sqlUpdateOrder = `UPDATE open_orders SET state = ?, version = ?, batch = ?, place = ?, batches = ?, split_group = ?
	WHERE seq = ? AND version = ?`
	sqlDeleteOpenOrder    = `DELETE FROM open_orders WHERE seq = ? AND version = ?`
	sqlInsertOrderOutcome = `INSERT INTO final_orders (state, version, batch, place, batches, split_group, seq, final_at, error, error_message)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	sqlAnyExpired = `SELECT EXISTS (SELECT 1 FROM open_orders WHERE state = 1 AND deadline <> 0
	AND deadline <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000)`
	sqlExpired = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM open_orders q CROSS JOIN orders o ON o.seq = q.seq
	WHERE q.state = 1 AND q.deadline <> 0 AND q.deadline <= ? ORDER BY q.deadline LIMIT ?`

	// An order is in one of two tables; one statement reads both.
	colsOrderRecord = colsOrder + `, coalesce(q.state, f.state) AS state, coalesce(q.version, f.version) AS version,
	coalesce(q.batch, f.batch) AS batch, coalesce(q.place, f.place) AS place, coalesce(q.batches, f.batches) AS batches,
	coalesce(q.split_group, f.split_group) AS split_group, coalesce(f.final_at, 0) AS final_at, f.error,
	coalesce(f.error_message, '') AS error_message`
	joinOrderRows = ` LEFT JOIN open_orders q ON q.seq = o.seq LEFT JOIN final_orders f ON f.seq = o.seq`
	listOrders    = `SELECT ` + colsOrderRecord + ` FROM orders o` + joinOrderRows + ` WHERE `
	// listBatchOrders finds the orders that are, or were last, part of a batch; ? is the
	// batch, twice.
	listBatchOrders = `SELECT ` + colsOrderRecord + ` FROM (SELECT seq FROM open_orders WHERE batch <> '' AND batch = ?
		UNION ALL SELECT seq FROM final_orders WHERE batch <> '' AND batch = ?) d
	CROSS JOIN orders o ON o.seq = d.seq` + joinOrderRows + ` WHERE `
	sqlOrderRows = `SELECT ` + colsOrderRecord + ` FROM json_each(?) j CROSS JOIN orders o ON o.order_id = j.value` + joinOrderRows

	sqlPrunableOrders     = `SELECT seq FROM final_orders WHERE final_at <= ? ORDER BY final_at LIMIT ?`
	sqlDeleteOrderPayload = `DELETE FROM order_payloads WHERE seq = ?`
	sqlDeleteOrderOutcome = `DELETE FROM final_orders WHERE seq = ?`
	sqlDeleteOrder        = `DELETE FROM orders WHERE seq = ?`
)
