// Package dltmock holds generated mocks of what a ledger client implements, for
// tests that prescribe single calls. For a ledger that behaves like one, take
// dlt/memory.
//
//	ledger := dltmock.NewMockLedger(gomock.NewController(t))
//	ledger.EXPECT().Traits(gomock.Any()).Return(dlt.Traits{Name: "mine"}).AnyTimes()
//	ledger.EXPECT().Submit(gomock.Any(), gomock.Any()).Return(nil)
package dltmock

import "github.com/dltbatch/dltbatch/dlt"

var (
	_ dlt.Ledger   = (*MockLedger)(nil)
	_ dlt.Resolver = (*MockResolver)(nil)
	_ dlt.Checker  = (*MockChecker)(nil)

	_ dlt.ListSubmitter = (*MockListSubmitter)(nil)
	_ dlt.Preparer      = (*MockPreparer)(nil)
)
