// Package dltmock holds generated mocks of a ledger client and of its two halves. They are
// for tests that prescribe single calls. For a ledger that behaves like a real one, take
// dlt/memory.
//
//	ledger := dltmock.NewMockLedger(gomock.NewController(t))
//	ledger.EXPECT().Traits(gomock.Any()).Return(dlt.Traits{Name: "mine"}).AnyTimes()
//	ledger.EXPECT().Submit(gomock.Any(), gomock.Any()).Return(nil)
package dltmock

import "github.com/dltbatch/dltbatch/dlt"

var (
	_ dlt.Submitter         = (*MockSubmitter)(nil)
	_ dlt.BatchStatusReader = (*MockBatchStatusReader)(nil)
	_ dlt.Ledger            = (*MockLedger)(nil)
)
