package sqlite

import "github.com/dltbatch/dltbatch/internal/sqlstore"

// These are the statements about orders. The comment in queries.go applies to them, too.
const (
	sqlAnyOrderLast = `SELECT coalesce(max(created_at), 0) FROM dltbatch_orders
	WHERE seq = (SELECT max(seq) FROM dltbatch_orders)`
	sqlPartyLasts = `SELECT j.value AS service_id, coalesce((SELECT max(o.created_at) FROM dltbatch_orders o WHERE o.party = j.value), 0) AS created_at
	FROM json_each(?) j`
	sqlInsertOrder = `INSERT INTO dltbatch_orders (order_id, party, created_at, idempotency_key, priority, urgent, deadline, payload_hash)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq`
	sqlSetOrderTrace      = `UPDATE dltbatch_orders SET trace_parent = ? WHERE seq = ?`
	sqlInsertOrderPayload = `INSERT INTO dltbatch_order_payloads (seq, payload) VALUES (?, ?)`
	sqlInsertOpenOrder    = `INSERT INTO dltbatch_open_orders (seq, party, priority, created_at, deadline, urgent, size, state, version)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	colsOrder     = sqlstore.ColsOrder
	colsOpenOrder = sqlstore.ColsOpenOrder

	sqlLockOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM json_each(?) j
	CROSS JOIN dltbatch_orders o ON o.order_id = j.value CROSS JOIN dltbatch_open_orders q ON q.seq = o.seq`
	sqlSplitOrders = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM dltbatch_open_orders q
	CROSS JOIN dltbatch_orders o ON o.seq = q.seq WHERE q.state = 1 AND q.split_group <> '' AND q.party = ? AND (q.deadline = 0 OR q.deadline > ?)`
	// An order key is unique within a party, so the id need not decide.
	sqlNextOrders = `SELECT q.seq, q.size, q.priority, q.created_at FROM dltbatch_open_orders q WHERE q.state = 1 AND q.party = ? AND (q.deadline = 0 OR q.deadline > ?)
	ORDER BY q.priority DESC, q.created_at LIMIT ?`
	sqlQueued = `SELECT ` + colsOrder + `, ` + colsOpenOrder + `, p.payload FROM json_each(?) j
	CROSS JOIN dltbatch_open_orders q ON q.seq = j.value CROSS JOIN dltbatch_orders o ON o.seq = q.seq CROSS JOIN dltbatch_order_payloads p ON p.seq = q.seq
	WHERE +q.state = 1` // the + keeps SQLite from using an index on state
	// sqlPartiesFirst jumps from party to party, as sqlLanesFirst does from lane to lane.
	// MATERIALIZED keeps SQLite from counting the orders of a party once for each column.
	sqlPartiesFirst = `WITH RECURSIVE parties (party) AS (SELECT min(party) FROM dltbatch_open_orders WHERE state = 1` + partiesNext
	sqlPartiesAfter = `WITH RECURSIVE parties (party) AS (SELECT min(party) FROM dltbatch_open_orders WHERE state = 1 AND party > ?3` + partiesNext
	partiesNext     = `
		UNION ALL
		SELECT (SELECT min(o.party) FROM dltbatch_open_orders o WHERE o.state = 1 AND o.party > parties.party) FROM parties
		WHERE parties.party IS NOT NULL),
	idle (party) AS MATERIALIZED (SELECT party FROM parties WHERE party IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM dltbatch_unsettled_batches u WHERE u.party = parties.party) LIMIT ?1),
	loads (party, load) AS MATERIALIZED (SELECT idle.party,
		(SELECT json_array(count(*), coalesce(sum(d.size), 0), coalesce(max(d.urgent), 0))
		FROM (SELECT q.size, q.urgent FROM dltbatch_open_orders q WHERE q.state = 1 AND q.party = idle.party
			ORDER BY q.priority DESC, q.created_at LIMIT ?2) d) FROM idle)
	SELECT loads.party, load ->> 0 AS orders, load ->> 1 AS bytes, load ->> 2 AS urgent,
		coalesce(` + ownClock + ` - (SELECT min(q.created_at) FROM dltbatch_open_orders q WHERE q.state = 1 AND q.party = loads.party), 0) AS oldest,
		EXISTS (SELECT 1 FROM dltbatch_open_orders q WHERE q.state = 1 AND q.split_group <> '' AND q.party = loads.party) AS split
	FROM loads`

	// The statement sorts the batches in flight, and does not read along the index by age.
	sqlSettleable = `SELECT ` + colsBatch + `, ` + colsFinal + ` FROM (SELECT u.batch_seq, b.created_at FROM dltbatch_unsettled_batches u
		CROSS JOIN dltbatch_outcomes f ON f.seq = u.batch_seq CROSS JOIN dltbatch_batches b ON b.seq = u.batch_seq
		ORDER BY b.created_at, b.header_signature LIMIT ?) d
	CROSS JOIN dltbatch_outcomes f ON f.seq = d.batch_seq CROSS JOIN dltbatch_batches b ON b.seq = d.batch_seq ORDER BY b.created_at, b.header_signature`

	sqlUpdateOrder = `UPDATE dltbatch_open_orders SET state = ?3, version = ?4, batch = ?5, place = ?6, batches = ?7, split_group = ?8
	WHERE seq = ?1 AND version = ?2`
	sqlDeleteOpenOrder  = `DELETE FROM dltbatch_open_orders WHERE seq = ? AND version = ?`
	sqlInsertFinalOrder = `INSERT INTO dltbatch_final_orders (seq, state, version, batch, place, batches, split_group, final_at, error, error_message)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	sqlAnyExpired = `SELECT EXISTS (SELECT 1 FROM dltbatch_open_orders WHERE state = 1 AND deadline <> 0
	AND deadline <= ` + ownClock + `)`
	sqlExpired = `SELECT ` + colsOrder + `, ` + colsOpenOrder + ` FROM dltbatch_open_orders q CROSS JOIN dltbatch_orders o ON o.seq = q.seq
	WHERE q.state = 1 AND q.deadline <> 0 AND q.deadline <= ? ORDER BY q.deadline LIMIT ?`

	sqlPrunableOrders     = `SELECT seq, final_at AS at FROM dltbatch_final_orders WHERE final_at <= ? ORDER BY final_at LIMIT ?`
	sqlDeleteOrderPayload = `DELETE FROM dltbatch_order_payloads WHERE seq = ?`
	sqlDeleteOrderOutcome = `DELETE FROM dltbatch_final_orders WHERE seq = ?`
	sqlDeleteOrder        = `DELETE FROM dltbatch_orders WHERE seq = ?`
)
