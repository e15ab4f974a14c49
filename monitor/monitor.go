package monitor

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// PendingBatchStore selects the batches to ask about (docs/glossary.md#dlt-polling-monitor).
type PendingBatchStore interface {
	Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error)
	Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error)
	Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error)
	Checked(ctx context.Context, due []store.Due) error
}

// BatchStatusReader is the ledger's half (docs/glossary.md#dlt-polling-monitor).
type BatchStatusReader = dlt.BatchStatusReader

// BatchUpdater takes outcomes that became known together (docs/glossary.md#dlt-polling-monitor).
// It may keep the slice. It may block, but not on the monitor.
type BatchUpdater interface {
	Put(all []store.Outcome)
}
