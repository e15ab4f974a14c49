package sqlstore

// Statements of searches. $1 and $2 are the first and the last of the names that begin alike.
const (
	findChanges     = `SELECT b.header_signature FROM {batches} b WHERE `
	findTombs       = `SELECT b.header_signature FROM {tombstones} b WHERE `
	changeCondition = `b.data_change_id >= $1::text AND b.data_change_id <= $2::text AND b.data_change_id <> ''`
	changeOrder     = ` ORDER BY b.data_change_id, b.service_id LIMIT $3::bigint`
	sqlFindIDs      = `SELECT b.header_signature FROM {batches} b WHERE b.id_hash >= $1::uuid AND b.id_hash <= $2::uuid ORDER BY b.id_hash LIMIT $3::bigint`
	sqlChanges      = findChanges + changeCondition + changeOrder
	sqlTombChanges  = findTombs + changeCondition + changeOrder
	sqlChangesOf    = findChanges + changeCondition + ` AND b.service_id = $4::text` + changeOrder
	sqlTombsOf      = findTombs + changeCondition + ` AND b.service_id = $4::text` + changeOrder
	sqlFindOrders   = `SELECT ` + colsOrderRecord + ` FROM {orders} o` + joinOrderRows +
		` WHERE o.order_id >= $1::text AND o.order_id <= $2::text ORDER BY o.order_id LIMIT $3::bigint`
	sqlFindOrderKeys = `SELECT ` + colsOrderRecord + ` FROM {orders} o` + joinOrderRows +
		` WHERE o.idempotency_key >= $1::text AND o.idempotency_key <= $2::text AND o.idempotency_key <> ''
	ORDER BY o.idempotency_key, o.party LIMIT $3::bigint`
	// These statements jump from name to name, however many rows each name has.
	sqlLanesOfBatches = `WITH RECURSIVE lanes (s) AS (SELECT min(b.service_id) FROM {batches} b WHERE b.service_id >= $1::text AND b.service_id <= $2::text
		UNION ALL SELECT (SELECT min(b.service_id) FROM {batches} b WHERE b.service_id > lanes.s AND b.service_id <= $2::text) FROM lanes WHERE lanes.s IS NOT NULL)
	SELECT lanes.s FROM lanes WHERE lanes.s IS NOT NULL LIMIT $3::bigint`
	sqlLanesOfOrders = `WITH RECURSIVE lanes (s) AS (SELECT min(o.party) FROM {orders} o WHERE o.party >= $1::text AND o.party <= $2::text
		UNION ALL SELECT (SELECT min(o.party) FROM {orders} o WHERE o.party > lanes.s AND o.party <= $2::text) FROM lanes WHERE lanes.s IS NOT NULL)
	SELECT lanes.s FROM lanes WHERE lanes.s IS NOT NULL LIMIT $3::bigint`
	sqlLanesSteered = `SELECT c.service_id FROM {controls} c WHERE c.everything = false AND c.service_id >= $1::text AND c.service_id <= $2::text
	ORDER BY c.service_id LIMIT $3::bigint`
	sqlLanesServed = `SELECT s.name FROM {texts} s WHERE s.kind = 'served' AND s.name >= $1::text AND s.name <= $2::text ORDER BY s.name LIMIT $3::bigint`
)
