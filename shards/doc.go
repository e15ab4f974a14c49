// Package shards divides the lanes of an application over several PostgreSQL schemas, which may be
// on several servers: docs/scale.md says when an application needs that.
//
// A shard is one schema, with everything of its lanes: batches, outcomes, history, controls,
// tombstones. So every promise of the library holds in it as it does in a single schema. The
// number of shards is fixed at the start, and a lane belongs to the same shard for ever
// ([Number]). All shards may begin on one server; to grow is to move whole schemas to another one.
//
// Each schema records which shard it is (postgres.Options.Shard). A schema that is opened as
// another shard, and a batch, an order or a pause of a lane of another shard, give
// [store.ErrOtherShard].
//
// Ids, data change ids and order are a matter of one lane, or of one schema: no promise reaches
// over two shards. The same id in lanes of two shards is two batches.
package shards
