package sqlstore

// Queries are the statements that drivers write each for itself: their tables for open batches
// are others, or their planners want something else.
type Queries struct {
	// State is an expression for the state of a batch in the following three statements.
	State string
	// ListAll, ListOpen and ListQuarantined end with WHERE and return a record: the columns of
	// ColsBatch, those of an open row, final_at and quarantined. PostgreSQL has three tables for
	// rows, SQLite two. The batch is b; open rows, found through their own tables, are o.
	ListAll, ListOpen, ListQuarantined string
	// AllLanesFirst and AllLanesAfter jump from lane to lane; $1 is a limit, $2 the last lane.
	AllLanesFirst, AllLanesAfter string
	// Counts counts in the lanes $1, up to $2 waiting batches in each; $3 are floors, if any.
	Counts string

	// LockOrders reads the open orders of the ids $1, LockBatchOrders those that are part of the
	// batches $1, for a change: PostgreSQL locks the rows in one order, SQLite the database.
	LockOrders, LockBatchOrders string
	// These write rows of ExecAll. The first and the second begin with number and version, and
	// write only a row that still has it.
	UpdateOrders, DeleteOpenOrders, InsertFinalOrders, DeleteUnsettled string
	// AnyExpired says whether an order has expired, where a look that only reads is worth it;
	// Expired reads up to $2 that have at $1.
	AnyExpired, Expired string
	// Settleable returns up to $1 final batches of orders that are not settled; SQLite sorts them
	// by numbers first.
	Settleable string
	// PartiesFirst and PartiesAfter jump from party to party; $1 is a limit, $2 bounds the orders
	// that count, $3 is the last party.
	PartiesFirst, PartiesAfter string
	// SplitOrders reads the orders of party $1 that were split, NextOrders the front of its queue,
	// $3 orders and more only where ids break ties, both as of $2; QueuedOrders reads the orders
	// $1 with their payloads, which SQLite keeps in a table of their own.
	SplitOrders, NextOrders, QueuedOrders string
}

// The statements that drivers share. A test of each driver asks its planner about each
// statement, and fails on a scan of a table that grows.
//
// clock_timestamp is not qualified, so that tests can put a function of their own before it.
const (
	// Clock is the database's clock in microseconds.
	Clock  = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	sqlNow = `SELECT ` + Clock

	// ColsBatch are the columns of a batch that never change.
	ColsBatch = `b.seq, b.header_signature, b.service_id, b.created_at, b.data_change_id, b.budget_attempts, b.budget_every_try`
	// ColsOutcome are the columns of a final row.
	ColsOutcome = `f.state, f.version, f.attempt, f.spent, f.failures, f.asked_at, f.last_post, f.settles_at, f.final_at,
	f.requeued, f.submission_error, f.submission_error_message, f.receipts, f.orders_settled, f.quarantined`

	sqlSeqs     = `SELECT b.seq, b.header_signature, b.service_id FROM {batches} b WHERE b.id_hash = ANY ($1::uuid[])`
	sqlReceipts = `SELECT r.batch_seq, r.transaction_id, r.result_valid, r.error_message, r.error_data FROM unnest($1::bigint[]) AS u (seq)
	CROSS JOIN LATERAL (SELECT * FROM {transaction_receipts} r WHERE r.batch_seq = u.seq OFFSET 0) r ORDER BY r.batch_seq, r.position`

	// Of an open batch it finds only the key, and all else is zero.
	sqlFinals = `SELECT ` + ColsBatch + `, coalesce(f.state, 0), coalesce(f.version, 0), coalesce(f.attempt, 0), coalesce(f.spent, 0),
	coalesce(f.failures, 0), coalesce(f.asked_at, 0), coalesce(f.last_post, 0), coalesce(f.settles_at, 0), coalesce(f.final_at, 0),
	coalesce(f.requeued, false), f.submission_error, coalesce(f.submission_error_message, ''), coalesce(f.receipts, 0),
	coalesce(f.orders_settled, false), coalesce(f.quarantined, false) FROM unnest($1::uuid[]) AS u (id_hash)
	CROSS JOIN LATERAL (SELECT * FROM {batches} b WHERE b.id_hash = u.id_hash OFFSET 0) b
	LEFT JOIN LATERAL (SELECT * FROM {outcomes} f WHERE f.seq = b.seq OFFSET 0) f ON true`

	// ColsOrder are the columns of an order that never change, ColsOpenOrder those of its open row.
	ColsOrder     = `o.seq, o.order_id, o.party, o.created_at, o.idempotency_key, o.priority, o.urgent, o.deadline`
	ColsOpenOrder = `q.state, q.version, q.batch, q.place, q.batches, q.split_group`
	// An order is in one of two tables; one statement reads both.
	colsOrderRecord = ColsOrder + `, coalesce(q.state, f.state), coalesce(q.version, f.version), coalesce(q.batch, f.batch),
	coalesce(q.place, f.place), coalesce(q.batches, f.batches), coalesce(q.split_group, f.split_group), coalesce(f.final_at, 0),
	f.error, coalesce(f.error_message, '')`
	joinOrderRows = ` LEFT JOIN {open_orders} q ON q.seq = o.seq LEFT JOIN {final_orders} f ON f.seq = o.seq`
	listAllOrders = `SELECT ` + colsOrderRecord + ` FROM {orders} o` + joinOrderRows + ` WHERE `
	// listBatchOrders finds the orders that are, or were last, part of batch $1.
	listBatchOrders = `SELECT ` + colsOrderRecord + ` FROM (SELECT seq FROM {open_orders} WHERE batch <> '' AND batch = $1::text
		UNION ALL SELECT seq FROM {final_orders} WHERE batch <> '' AND batch = $1::text) d
	JOIN {orders} o ON o.seq = d.seq` + joinOrderRows + ` WHERE `
	sqlOrderRows = `SELECT ` + colsOrderRecord + ` FROM unnest($1::text[]) AS u (id)
	CROSS JOIN LATERAL (SELECT * FROM {orders} o WHERE o.order_id = u.id OFFSET 0) o
	LEFT JOIN LATERAL (SELECT * FROM {open_orders} q WHERE q.seq = o.seq OFFSET 0) q ON true
	LEFT JOIN LATERAL (SELECT * FROM {final_orders} f WHERE f.seq = o.seq OFFSET 0) f ON true`
	// BatchOrders reads the open orders that are part of the batches $1.
	BatchOrders = `SELECT ` + ColsOrder + `, ` + ColsOpenOrder + ` FROM unnest($1::text[]) AS u (id)
	CROSS JOIN LATERAL (SELECT * FROM {open_orders} q WHERE q.batch = u.id AND q.batch <> '' AND q.state = 2 OFFSET 0) q
	CROSS JOIN LATERAL (SELECT * FROM {orders} o WHERE o.seq = q.seq OFFSET 0) o ORDER BY q.batch, q.place`
	sqlBatchOrders = BatchOrders

	sqlInsertUnsettled = `INSERT INTO {unsettled_batches} (batch_seq, party) VALUES ($1::bigint, $2::text) ON CONFLICT DO NOTHING`
)
