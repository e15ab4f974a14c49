package sqlstore

// Queries are the statements that each driver writes for itself, because its tables for open
// batches or its planner differ.
type Queries struct {
	// State is an expression for the state of a batch in the next three statements.
	State string
	// ListAll, ListOpen and ListQuarantined end with WHERE and return a record: the columns of
	// ColsBatch, Tags, the columns of an open row, final_at and quarantined. PostgreSQL has three
	// tables for rows, SQLite two. The batch is b; open rows, found through their own tables, are
	// o.
	ListAll, ListOpen, ListQuarantined string
	// ListTagged is ListAll for the batches of the rows t of batch_tags; f is the outcome of the
	// batch.
	ListTagged string
	// Look finds the batch of the hash $1. It returns the columns of a record with the prepared
	// bytes, and then orders_settled, the footprint and the clock.
	Look string
	// CountRequeue makes claims forget where the open batches of the lane $1 begin. It is "" in a
	// driver whose claims do not remember that.
	CountRequeue string
	// AllLanesFirst and AllLanesAfter jump from lane to lane; $1 is a limit, $2 the last lane.
	AllLanesFirst, AllLanesAfter string
	// Counts counts in the lanes $1, up to $2 waiting batches in each. $3 are the floors of the
	// lanes, if the driver has floors.
	Counts string
	// BriefCounts and BriefCountsEnd, with conditions on w.service_id between them, count the
	// first rows by lane, up to a number of rows and of lanes: see [briefCount]. BriefRows, with
	// conditions on a.service_id after it, reads the attempted rows. BriefAll is true if
	// BriefCounts counts these rows, too, and returns the first row of each lane.
	BriefCounts, BriefCountsEnd, BriefRows string
	BriefAll                               bool
	// CountOpen counts all open batches, as of $1, in rows of kind, name, code, number and time.
	// It ends with [CountBeside].
	CountOpen string

	// LockOrders reads the open orders of the ids $1, and LockBatchOrders the orders in the
	// batches $1, to change them. PostgreSQL locks the rows in a fixed order, SQLite the whole
	// database.
	LockOrders, LockBatchOrders string
	// These statements write rows of ExecAll. The rows of UpdateOrders and DeleteOpenOrders begin
	// with the number and the version, and both write only to a row that still has this version.
	UpdateOrders, DeleteOpenOrders, InsertFinalOrders string
	// AnyExpired reports whether an order has expired; it is "" in a driver that gains nothing by
	// a separate statement that only reads. Expired reads up to $2 orders that had expired at $1.
	AnyExpired, Expired string
	// Settleable returns up to $1 final batches whose orders are not settled; SQLite sorts them by
	// their numbers first.
	Settleable string
	// PartiesFirst and PartiesAfter jump from party to party. $1 is a limit, $2 bounds the orders
	// that are counted, and $3 is the last party.
	PartiesFirst, PartiesAfter string
	// SplitOrders reads the orders of the party $1 that were split, as of $2. NextOrders reads the
	// first $3 orders of the queue of $1, as of $2, and further orders only where the ids decide
	// between equal places. QueuedOrders reads the orders $1 with their payloads, which SQLite
	// keeps in a separate table.
	SplitOrders, NextOrders, QueuedOrders string

	// PruneBatches and PruneOrders are statements for ExecAll that remove everything about a
	// number; PostgreSQL finds rows of several tables by their physical places. PruneLaneActs
	// removes up to $2 rows that are at least as old as $1.
	PruneBatches, PruneOrders []string
	PruneLaneActs             string
	// Bury writes tombstones of the batches $1 as of $2. Tombs finds the tombstones of the ids $1;
	// in SQLite they have no hash of the id.
	Bury, Tombs string
	// TombsByHash finds the ids of up to $3 tombstones with hashes from $1 to $2. A driver without
	// these hashes has TombsByID, which finds ids from $1 to $2.
	TombsByHash, TombsByID string
	// DeleteStreamIDs removes ids. Its rows are a stream, an id and the latest time at which the
	// id may have been written.
	DeleteStreamIDs string

	// Payloads reads number, id, service and payload of the batches $1.
	Payloads string
	// Witnesses finds up to $6 final batches, the youngest first, with a state of $4, among the $5
	// batches before the batch $1. $1 is in doubt and has the id $2 and the service $3. Only
	// batches that were final before the doubt began count.
	Witnesses string
	// SetChecks writes when the monitor asks next. Its rows are the number, the version,
	// next_check and due_at.
	SetChecks string
}

// These are the statements that all drivers use. A test of each driver asks its planner about each
// statement, and fails on a scan of a table that grows.
//
// clock_timestamp is not qualified, so that tests can put a function of their own before it.
const (
	// Clock is the database's clock in microseconds.
	Clock  = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	sqlNow = `SELECT ` + Clock

	// ColsBatch are the columns of a batch that never change.
	ColsBatch = `b.seq, b.header_signature, b.service_id, b.created_at, b.data_change_id, b.budget_attempts, b.budget_every_try, ` + TraceParent
	// TraceParent is the trace context of a batch, or "".
	TraceParent = `coalesce(b.trace_parent, '') AS trace_parent`
	// Tags are the tags of a batch, or "". Only statements that make a record read them.
	Tags      = `coalesce(b.tags, '') AS tags`
	sqlTagsOf = `SELECT ` + Tags + ` FROM {batches} b WHERE b.seq = $1::bigint`
	// tagNameAndValueMatch and tagValueMatches are conditions on a row t of batch_tags. A batch
	// that has a value under two names counts once.
	tagNameAndValueMatch = `t.name = ?::text AND t.value = ?::text`
	tagValueMatches      = `t.value = ?::text AND NOT EXISTS (SELECT 1 FROM {batch_tags} x
		WHERE x.batch_seq = t.batch_seq AND x.name < t.name AND x.value = t.value)`
	// BriefCols are the columns of an open row a that decide whether it waits.
	BriefCols = `a.seq, a.service_id, a.created_at, a.state, a.attempt, a.claim_expires, a.not_before, a.settles_at, a.doubt_attempt,
	a.resend_until, a.submission_error, CASE WHEN a.decision <> '' THEN a.submission_error_message ELSE '' END AS submission_error_message, a.decision`
	// ColsOutcome are the columns of a final row.
	ColsOutcome = `f.state, f.version, f.attempt, f.spent, f.failures, f.asked_at, f.last_post, f.settles_at, f.final_at,
	f.requeued, f.submission_error, f.submission_error_message, f.receipts, f.orders_settled, f.quarantined`

	// ClaimAhead, followed by the clock and a closing bracket, is the condition that an attempted
	// row has a live claim which lasts longer than a claim that begins now. Such a claim is to be
	// put right ([store.Row].AsOf).
	ClaimAhead = `(state = 2 AND claim_expires <> last_post
		AND claim_expires - CASE WHEN claim_ttl > 0 THEN claim_ttl ELSE 3600000000 END - 5000000 > `

	// ColsTombstone are the columns of a tombstone.
	ColsTombstone = `p.header_signature, p.service_id, p.payload_hash, p.pruned_at,
	p.data_change_id, p.created_at, p.state, p.version, p.attempt, p.final_at, p.submission_error, p.submission_error_message`
	// BuryInto are the columns that the tombstones of all drivers have. BuryFrom are their values,
	// from batches b with their outcomes f.
	BuryInto = `header_signature, service_id, payload_hash, pruned_at,
	data_change_id, created_at, state, version, attempt, final_at, submission_error, submission_error_message`
	BuryFrom = `b.header_signature, b.service_id, b.payload_hash, $2::bigint,
	b.data_change_id, b.created_at, f.state, f.version, f.attempt, f.final_at, f.submission_error, f.submission_error_message`

	sqlSeqs     = `SELECT b.seq, b.header_signature, b.service_id FROM {batches} b WHERE b.id_hash = ANY ($1::uuid[])`
	sqlReceipts = `SELECT r.batch_seq, r.transaction_id, r.result_valid, r.error_message, r.error_data FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT * FROM {transaction_receipts} r WHERE r.batch_seq = u.seq OFFSET 0) r ORDER BY r.batch_seq, r.position`

	// sqlFinals returns an open batch with its key only, and zeros in all other columns.
	sqlFinals = `SELECT ` + ColsBatch + `, ` + Tags + `, coalesce(f.state, 0) AS state, coalesce(f.version, 0) AS version, coalesce(f.attempt, 0) AS attempt,
	coalesce(f.spent, 0) AS spent, coalesce(f.failures, 0) AS failures, coalesce(f.asked_at, 0) AS asked_at, coalesce(f.last_post, 0) AS last_post,
	coalesce(f.settles_at, 0) AS settles_at, coalesce(f.final_at, 0) AS final_at, coalesce(f.requeued, false) AS requeued, f.submission_error,
	coalesce(f.submission_error_message, '') AS submission_error_message, coalesce(f.receipts, 0) AS receipts,
	coalesce(f.orders_settled, false) AS orders_settled, coalesce(f.quarantined, false) AS quarantined FROM unnest($1::uuid[]) AS u (id_hash)
	CROSS JOIN LATERAL (SELECT * FROM {batches} b WHERE b.id_hash = u.id_hash OFFSET 0) b
	LEFT JOIN LATERAL (SELECT * FROM {outcomes} f WHERE f.seq = b.seq OFFSET 0) f ON true`

	// ColsOrder are the columns of an order that never change, ColsOpenOrder the columns of its
	// open row.
	ColsOrder     = `o.seq, o.order_id, o.party, o.created_at, o.idempotency_key, o.priority, o.urgent, o.deadline, coalesce(o.trace_parent, '') AS trace_parent`
	ColsOpenOrder = `q.state, q.version, q.batch, q.place, q.batches, q.split_group`
	// An order is in one of two tables, and one statement reads both.
	colsOrderRecord = ColsOrder + `, coalesce(q.state, f.state) AS state, coalesce(q.version, f.version) AS version,
	coalesce(q.batch, f.batch) AS batch, coalesce(q.place, f.place) AS place, coalesce(q.batches, f.batches) AS batches,
	coalesce(q.split_group, f.split_group) AS split_group, coalesce(f.final_at, 0) AS final_at, f.error, coalesce(f.error_message, '') AS error_message`
	joinOrderRows = ` LEFT JOIN {open_orders} q ON q.seq = o.seq LEFT JOIN {final_orders} f ON f.seq = o.seq`
	listAllOrders = `SELECT ` + colsOrderRecord + ` FROM {orders} o` + joinOrderRows + ` WHERE `
	// listBatchOrders finds the orders that are, or were last, part of a batch. The batch is an
	// argument twice.
	listBatchOrders = `SELECT ` + colsOrderRecord + ` FROM (SELECT seq FROM {open_orders} WHERE batch <> '' AND batch = ?::text
		UNION ALL SELECT seq FROM {final_orders} WHERE batch <> '' AND batch = ?::text) d
	JOIN {orders} o ON o.seq = d.seq` + joinOrderRows + ` WHERE `
	sqlOrderRows = `SELECT ` + colsOrderRecord + ` FROM unnest($1::text[]) AS u (id)
	CROSS JOIN LATERAL (SELECT * FROM {orders} o WHERE o.order_id = u.id OFFSET 0) o
	LEFT JOIN LATERAL (SELECT * FROM {open_orders} q WHERE q.seq = o.seq OFFSET 0) q ON true
	LEFT JOIN LATERAL (SELECT * FROM {final_orders} f WHERE f.seq = o.seq OFFSET 0) f ON true`
	// On PostgreSQL the row locks are a write, so the commit waits for synchronous standbys.
	// Without a write it would not wait, and an order that is already stored, by its id or its
	// Key, may not have reached the standbys yet.
	sqlKnownOrders = `SELECT o.order_id AS name, o.party, o.payload_hash FROM unnest($1::text[]) AS u (id)
	JOIN {orders} o ON o.order_id = u.id FOR KEY SHARE OF o`
	sqlKnownOrderKeys = `SELECT o.idempotency_key AS name, o.party, o.payload_hash FROM unnest($1::text[], $2::text[]) AS u (p, k)
	CROSS JOIN LATERAL (SELECT * FROM {orders} o WHERE o.party = u.p AND o.idempotency_key = u.k AND o.idempotency_key <> '' OFFSET 0) o FOR KEY SHARE OF o`
	// BatchOrders reads the open orders that are part of the batches $1.
	BatchOrders = `SELECT ` + ColsOrder + `, ` + ColsOpenOrder + ` FROM unnest($1::text[]) AS u (id)
	CROSS JOIN LATERAL (SELECT * FROM {open_orders} q WHERE q.batch = u.id AND q.batch <> '' AND q.state = 2 OFFSET 0) q
	CROSS JOIN LATERAL (SELECT * FROM {orders} o WHERE o.seq = q.seq OFFSET 0) o ORDER BY q.batch, q.place`
	sqlBatchOrders = BatchOrders

	sqlDeleteUnsettled = `DELETE FROM {unsettled_batches} WHERE batch_seq = ANY ($1::bigint[])`
	sqlInsertUnsettled = `INSERT INTO {unsettled_batches} (batch_seq, party) VALUES ($1::bigint, $2::text) ON CONFLICT DO NOTHING`

	// IsClosed is a condition on the control c.
	IsClosed = `(c.paused_at <> 0 OR c.halted_at <> 0)`
	// ColsControl are the columns of a control.
	ColsControl = `c.everything, c.service_id, c.paused_at, c.paused_by, c.paused_reason, c.policy, c.halted_at, c.halted_by,
	c.halt_reason, c.version`
	sqlControl = `SELECT ` + ColsControl + ` FROM {controls} c WHERE c.everything = $1::boolean AND c.service_id = $2::text`
	// sqlControlsOf reads the controls of the lanes $1.
	sqlControlsOf = `SELECT ` + ColsControl + ` FROM unnest($1::text[]) AS u (s)
	CROSS JOIN LATERAL (SELECT * FROM {controls} c WHERE c.everything = false AND c.service_id = u.s OFFSET 0) c`
	sqlControls = `SELECT ` + ColsControl + ` FROM {controls} c WHERE c.everything = false AND c.service_id >= $1::text
	AND (c.service_id <> $1::text OR $2::boolean) AND (c.policy <> 0 OR ` + IsClosed + `) ORDER BY c.service_id LIMIT $3::bigint`
	briefControls = `SELECT ` + ColsControl + ` FROM {controls} c WHERE c.everything = false AND `
	briefServed   = `SELECT s.name, s.body FROM {texts} s WHERE s.kind = 'served' AND `
	sqlNewControl = `INSERT INTO {controls} (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by,
	halt_reason, version) VALUES ($1::boolean, $2::text, 0, '', '', 0, 0, '', '', 0) ON CONFLICT DO NOTHING`
	sqlLockControl = sqlControl + ` FOR UPDATE`
	sqlSetControl  = `UPDATE {controls} SET paused_at = $3::bigint, paused_by = $4::text, paused_reason = $5::text, policy = $6::bigint,
	halted_at = $7::bigint, halted_by = $8::text, halt_reason = $9::text, version = $10::bigint WHERE everything = $1::boolean AND service_id = $2::text`
	sqlDeleteControl = `DELETE FROM {controls} WHERE everything = $1::boolean AND service_id = $2::text`

	sqlInsertLaneAct = `INSERT INTO {lane_acts} (everything, service_id, position, action, actor, reason, at, batch, policy)
	SELECT $1::boolean, $2::text, (SELECT coalesce(max(x.position), 0) + 1 FROM {lane_acts} x
		WHERE x.everything = $1::boolean AND x.service_id = $2::text),
		$3::text, $4::text, $5::text, $6::bigint, $7::text, $8::bigint RETURNING position`
	sqlTrimLaneActs = `DELETE FROM {lane_acts} WHERE everything = $1::boolean AND service_id = $2::text AND position <= $3::bigint`
	sqlLaneActs     = `SELECT action, actor, reason, at, batch, policy FROM {lane_acts}
	WHERE everything = $1::boolean AND service_id = $2::text ORDER BY position`

	sqlInsertBatchAct = `INSERT INTO {batch_acts} (batch_seq, position, action, actor, reason, at, from_state, to_state)
	SELECT $1::bigint, (SELECT coalesce(max(x.position), 0) + 1 FROM {batch_acts} x WHERE x.batch_seq = $1::bigint),
		$2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint RETURNING position`
	sqlTrimBatchActs = `DELETE FROM {batch_acts} WHERE batch_seq = $1::bigint AND position <= $2::bigint`
	sqlBatchActs     = `SELECT action, actor, reason, at, from_state, to_state FROM {batch_acts}
	WHERE batch_seq = $1::bigint ORDER BY position`
	// sqlAllBatchActs and sqlAllLaneActs read the acts after a place, the newest first.
	sqlAllBatchActs = `SELECT d.action, d.actor, d.reason, d.at, d.from_state, d.to_state, b.service_id, b.header_signature AS batch, d.batch_seq, d.position
	FROM (SELECT * FROM {batch_acts} a WHERE a.at <= $1::bigint AND (a.at, a.batch_seq, a.position) < ($1::bigint, $2::bigint, $3::bigint)
		ORDER BY a.at DESC, a.batch_seq DESC, a.position DESC LIMIT $4::bigint) d
	CROSS JOIN LATERAL (SELECT * FROM {batches} b WHERE b.seq = d.batch_seq OFFSET 0) b ORDER BY d.at DESC, d.batch_seq DESC, d.position DESC`
	sqlAllLaneActs = `SELECT a.action, a.actor, a.reason, a.at, a.batch, a.policy, a.everything, a.service_id, a.position FROM {lane_acts} a
	WHERE a.at <= $1::bigint AND (a.at, a.everything, a.service_id, a.position) < ($1::bigint, $2::boolean, $3::text, $4::bigint)
	ORDER BY a.at DESC, a.everything DESC, a.service_id DESC, a.position DESC LIMIT $5::bigint`
	sqlAttempts = `SELECT attempt, at, kind, status_code, code, endpoint, took, answer, instance FROM {attempts}
	WHERE batch_seq = $1::bigint ORDER BY position`

	// The first row that sqlTexts and sqlListTexts return is the clock.
	sqlTexts = selectNowAsText + `SELECT x.name, x.version, x.begun_at, x.changed_at, x.body, 0 FROM {texts} x
	WHERE x.name = ANY ($2::text[]) AND x.kind = $1::text`
	sqlListTexts = selectNowAsText + `SELECT * FROM (SELECT x.name, x.version, x.begun_at, x.changed_at, x.body, 0 FROM {texts} x WHERE x.kind = $1::text
		AND ($2::bigint = 0 OR x.changed_at <= ` + Clock + ` - $2::bigint) ORDER BY x.changed_at DESC, x.name LIMIT $3::bigint) d`
	selectNowAsText = `SELECT '' AS name, 0 AS version, 0 AS begun_at, 0 AS changed_at, '' AS body, ` + Clock + ` AS now UNION ALL `
	// The WHERE is needed because SQLite would read the ON of ON CONFLICT as the condition of a
	// join.
	sqlAddTexts = `INSERT INTO {texts} (kind, name, version, begun_at, changed_at, body)
	SELECT $1::text, u.n, 1, ` + Clock + `, ` + Clock + `, u.b FROM unnest($2::text[], $3::text[]) AS u (n, b) WHERE true ON CONFLICT DO NOTHING`
	sqlChangeText = `UPDATE {texts} SET version = version + 1, changed_at = ` + Clock + `, body = $4::text
	WHERE kind = $1::text AND name = $2::text AND version = $3::bigint`
	sqlRemoveText = `DELETE FROM {texts} WHERE kind = $1::text AND name = $2::text AND version = $3::bigint`
	sqlServed     = `SELECT s.name, s.body FROM {texts} s WHERE s.name = ANY ($1::text[]) AND s.kind = 'served'`

	sqlNewStream = `INSERT INTO {streams} (stream, holder, epoch, lease_expires, since, until_, cursor)
	VALUES ($1::text, '', 0, 0, 0, 0, '') ON CONFLICT DO NOTHING`
	sqlStream = `SELECT s.holder, s.epoch, s.lease_expires, s.since, s.until_, s.cursor FROM {streams} s
	WHERE s.stream = $1::text FOR UPDATE`
	sqlSetStream = `UPDATE {streams} SET holder = $2::text, epoch = $3::bigint, lease_expires = $4::bigint, since = $5::bigint,
	until_ = $6::bigint, cursor = $7::text WHERE stream = $1::text`
	sqlInsertStreamIDs = `INSERT INTO {stream_ids} (stream, id, at) SELECT $1::text, u.id, $3::bigint FROM unnest($2::text[]) AS u (id)
	WHERE true ON CONFLICT DO NOTHING`
	sqlFindStream = `SELECT false AS is_id, s.cursor, s.since, s.until_, ` + Clock + ` AS now FROM {streams} s WHERE s.stream = $1::text
	UNION ALL SELECT true, i.id, 0, 0, 0 FROM unnest($2::text[]) AS u (id)
	CROSS JOIN LATERAL (SELECT * FROM {stream_ids} i WHERE i.stream = $1::text AND i.id = u.id OFFSET 0) i`
	sqlLockStreams = `SELECT s.stream FROM {streams} s WHERE s.stream = ANY ($1::text[]) ORDER BY s.stream FOR UPDATE`
	sqlRaiseSince  = `UPDATE {streams} SET since = $2::bigint WHERE stream = ANY ($1::text[]) AND since BETWEEN 1 AND $2::bigint`

	// InDoubt is the condition [store.Row].InDoubt for an attempted row a, as of $1.
	InDoubt = `a.doubt_attempt <> 0 AND a.state NOT IN (3, 4, 8) AND (a.state <> 2 OR a.claim_expires <= $1::bigint OR a.claim_expires = a.last_post OR a.doubt_attempt <> a.attempt)`
	// CountBeside reads the version of the schema, and counts the lanes that are paused or halted,
	// the open orders, and the orders that were refused lately, as of $1.
	CountBeside = `
	UNION ALL SELECT 'schema', '', 0, coalesce(max(m.version_id), 0), 0 FROM {dltbatch_schema} m
	UNION ALL SELECT 'paused', '', CASE WHEN c.everything THEN 1 ELSE 0 END, count(*), 0 FROM {controls} c WHERE c.paused_at <> 0 GROUP BY c.everything
	UNION ALL SELECT 'halted', '', CASE WHEN c.everything THEN 1 ELSE 0 END, count(*), 0 FROM {controls} c WHERE c.halted_at <> 0 GROUP BY c.everything
	UNION ALL SELECT 'orders', '', q.state, count(*), min(q.created_at) FROM {open_orders} q GROUP BY q.state
	UNION ALL SELECT 'refused', '', 0, count(*), coalesce(min(f.final_at), 0) FROM {final_orders} f
		WHERE f.state = 5 AND f.final_at > $1::bigint - ` + refusedOrdersPeriod
	// refusedOrdersPeriod is [store.RefusedFor] in microseconds.
	refusedOrdersPeriod = `86400000000`

	sqlServicesOf = `SELECT b.seq, b.service_id FROM {batches} b WHERE b.seq = ANY ($1::bigint[])`
)
