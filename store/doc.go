// Package store is the contract between dltbatch and a database: what the
// application uses ([BatchStore]), what the engine uses ([Engine]), and the rules
// that both sides share as pure functions over a [Row].
//
// A batch is stored in two parts: what never changes (the batch itself) and the
// [Row], which does. Drivers load a row, ask this package what becomes of it, and
// write it back by compare-and-set on its version; so that all of them mean the
// same. Auto-batching (docs/glossary.md#auto-batch) has contracts of its own beside these,
// [OrderStore] and [OrderEngine], with the rules over an [OrderRow]. The drivers live in the
// folders below, and store/storetest and store/ordertest check any of them.
package store
