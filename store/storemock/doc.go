// Package storemock holds generated mocks of the contracts with a database, for
// tests that prescribe single calls. For a store that keeps what it is given,
// take store/memory.
package storemock

import "github.com/dltbatch/dltbatch/store"

var (
	_ store.Store      = (*MockStore)(nil)
	_ store.BatchStore = (*MockBatchStore)(nil)
	_ store.Engine     = (*MockEngine)(nil)
	_ store.Operator   = (*MockOperator)(nil)
	_ store.Controls   = (*MockControls)(nil)
	_ store.Inspector  = (*MockInspector)(nil)
	_ store.Journal    = (*MockJournal)(nil)

	_ store.Orders      = (*MockOrders)(nil)
	_ store.OrderStore  = (*MockOrderStore)(nil)
	_ store.OrderEngine = (*MockOrderEngine)(nil)
)
