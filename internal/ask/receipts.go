package ask

import (
	"context"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

const (
	// receiptsPause is the time from a commit that was recorded without receipts to the question
	// about them.
	receiptsPause = 10 * time.Second
	// maxReceipts bounds the commits whose receipts are wanted.
	maxReceipts = 1000
)

// receipts asks once for receipts that did not come with their commits. The list is in memory and
// bounded: a batch that is not in it keeps a record without receipts.
type receipts struct {
	table  monitor.BatchUpdater
	ledger *ledger
	more   chan struct{}

	mu     sync.Mutex
	wanted []wanted // the earliest first
}

type wanted struct {
	row store.InFlight
	at  time.Time
}

// Committed says that the commit of a batch was recorded without receipts. prepared are the bytes by
// which the ledger was asked about it.
func (m *Monitor) Committed(ref store.Ref, attempt int, prepared []byte) {
	if !m.ledger.Traits(ref.Key.Service).Receipts {
		return
	}
	r := m.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wanted) < maxReceipts {
		row := store.InFlight{Ref: ref, State: batch.Committed, Attempt: attempt, Prepared: prepared}
		r.wanted = append(r.wanted, wanted{row, time.Now().Add(receiptsPause)})
		loop.Poke(r.more)
	}
}

// first returns the earliest wish; ok is false where there is none.
func (r *receipts) first() (w wanted, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wanted) == 0 {
		return w, false
	}
	return r.wanted[0], true
}

// watch asks about one batch after the other, until ctx is done: each has the whole time limit of a
// request for itself, and the ledger is busy with one.
func (r *receipts) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w, ok := r.first()
		if !ok {
			select {
			case <-ctx.Done():
			case <-r.more:
			}
			continue
		}
		if !loop.Sleep(ctx, time.Until(w.at)) {
			return
		}
		r.ask(ctx, w.row)
		r.mu.Lock()
		r.wanted = r.wanted[1:]
		r.mu.Unlock()
	}
}

// ask asks about one batch. Without an answer the record stays as it is.
func (r *receipts) ask(ctx context.Context, row store.InFlight) {
	for _, g := range r.ledger.group([]inhand.Question{{Row: row}}) {
		said, _ := r.ledger.statuses(ctx, g)
		if st := said[row.Key.ID]; st != nil && st.Reported == batch.ReportedCommitted && len(st.Receipts) > 0 {
			r.table.Put([]store.Outcome{{Ref: row.Ref, By: batch.ByMonitor, Finding: store.HasReceipts, Receipts: st.Receipts}})
		}
	}
}
