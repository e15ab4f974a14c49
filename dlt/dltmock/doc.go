// Package dltmock holds generated mocks of a ledger client: of its two halves, of the
// whole, and of its optional parts. They are for tests that prescribe single calls. For
// a ledger that behaves like a real one, take dlt/memory.
//
//	ctrl := gomock.NewController(t)
//	ledger := dltmock.NewMockLedger(ctrl)
//	ledger.EXPECT().Traits(gomock.Any()).Return(dlt.Traits{Name: "mine", Checks: true}).AnyTimes()
//	ledger.EXPECT().Submit(gomock.Any(), gomock.Any()).Return(nil)
//
// An optional part is embedded beside the ledger:
//
//	checker := dltmock.NewMockChecker(ctrl)
//	checker.EXPECT().Check(gomock.Any()).Return(nil)
//	checking := struct {
//		dlt.Ledger
//		dlt.Checker
//	}{ledger, checker}
package dltmock

import "github.com/dltbatch/dltbatch/dlt"

var (
	_ dlt.Submitter         = (*MockSubmitter)(nil)
	_ dlt.BatchStatusReader = (*MockBatchStatusReader)(nil)
	_ dlt.Ledger            = (*MockLedger)(nil)

	_ dlt.Resolver      = (*MockResolver)(nil)
	_ dlt.Checker       = (*MockChecker)(nil)
	_ dlt.ListSubmitter = (*MockListSubmitter)(nil)
	_ dlt.Preparer      = (*MockPreparer)(nil)
	_ dlt.EventSource   = (*MockEventSource)(nil)
)
