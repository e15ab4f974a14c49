// Package monitormock holds generated mocks of the interfaces between a monitor and its
// store and recorder. The ledger's half, BatchStatusReader, is in dlt/dltmock.
package monitormock

import "github.com/dltbatch/dltbatch/monitor"

var (
	_ monitor.PendingBatchStore = (*MockPendingBatchStore)(nil)
	_ monitor.BatchUpdater      = (*MockBatchUpdater)(nil)
)
