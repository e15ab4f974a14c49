package sqlite

// These are the statements of [Store.Hear]. The comment in queries.go applies to them, too. A mark
// is how far a table was read; each statement reads the end of an index once or twice. The clock
// has milliseconds, and one transaction writes many rows, so a mark by time also has the number of
// rows of that time.
const (
	sqlMarkBatches = `SELECT coalesce(max(seq), 0) AS last, 0 AS n, 0 AS ahead FROM dltbatch_batches`
	sqlMarkOrders  = `SELECT coalesce(max(seq), 0) AS last, 0 AS n, 0 AS ahead FROM dltbatch_orders`

	markOf             = `SELECT coalesce(d.last, 0) AS last, coalesce(d.last > ` + ownClock + `, 0) AS ahead, `
	sqlMarkActs        = markOf + `(SELECT count(*) FROM dltbatch_batch_acts WHERE at = d.last) AS n FROM (SELECT max(at) AS last FROM dltbatch_batch_acts) d`
	sqlMarkLaneActs    = markOf + `(SELECT count(*) FROM dltbatch_lane_acts WHERE at = d.last) AS n FROM (SELECT max(at) AS last FROM dltbatch_lane_acts) d`
	sqlMarkFinalOrders = markOf + `(SELECT count(*) FROM dltbatch_final_orders WHERE final_at = d.last) AS n FROM (SELECT max(final_at) AS last FROM dltbatch_final_orders) d`
	// sqlMarkFinals does not find a batch in quarantine. A caller that awaits such a batch finds
	// it by its own next read.
	sqlMarkFinals = markOf + `(SELECT count(*) FROM dltbatch_outcomes WHERE quarantined = 0 AND final_at = d.last) AS n
	FROM (SELECT max(final_at) AS last FROM dltbatch_outcomes WHERE quarantined = 0) d`

	sqlNewLanes       = `SELECT DISTINCT service_id FROM dltbatch_batches WHERE seq BETWEEN ? AND ? LIMIT ?`
	sqlNewActs        = `SELECT b.service_id FROM dltbatch_batch_acts a CROSS JOIN dltbatch_batches b ON b.seq = a.batch_seq WHERE a.at >= ? LIMIT ?`
	sqlNewLaneActs    = `SELECT everything, service_id FROM dltbatch_lane_acts WHERE at >= ? LIMIT ?`
	sqlNewFinals      = `SELECT b.service_id, b.header_signature FROM dltbatch_outcomes f CROSS JOIN dltbatch_batches b ON b.seq = f.seq WHERE f.quarantined = 0 AND f.final_at >= ? LIMIT ?`
	sqlNewFinalOrders = `SELECT o.order_id FROM dltbatch_final_orders f CROSS JOIN dltbatch_orders o ON o.seq = f.seq WHERE f.final_at >= ? LIMIT ?`
)
