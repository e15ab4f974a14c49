// Package shards divides the lanes of an application over several PostgreSQL schemas, which may be
// on several servers: docs/scale.md says when an application needs that.
//
// A shard is one schema, with everything of its lanes: batches, outcomes, history, controls,
// tombstones. So every promise of the library holds in it as it does in a single schema. The
// number of shards is fixed at the start, and a lane belongs to the same shard for ever
// ([Number]). All shards may begin on one server; to grow is to move whole schemas to another one.
//
// Each schema records which shard it is (postgres.Options.Shard). A call gives
// [store.ErrOtherShard] where the schema was opened as another shard, or where its batch, order or
// pause is of a lane of another shard.
//
// The uniqueness of ids and data change ids, and the order of batches, hold in one lane or in one
// schema: no promise reaches over two shards. The same id in lanes of two shards is two batches.
package shards
