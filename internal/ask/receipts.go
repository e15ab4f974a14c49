package ask

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

const (
	// receiptsPause is the time from a commit that was recorded without receipts to the question
	// about them.
	receiptsPause = 10 * time.Second
	// maxIncomplete bounds the list of commits whose receipts are wanted. One more commit waits
	// for its question outside of the list.
	maxIncomplete = 1000
)

// incompleteCommit is a commit that was recorded without the receipts that its ledger gives. It is
// asked about once. The list of such commits is in memory and bounded: the record of a batch that
// is not in the list stays without receipts.
type incompleteCommit struct {
	row     store.InFlight
	askTime time.Time // when to ask
}

// Committed tells the monitor that the commit of a batch was recorded without receipts. prepared
// are the bytes by which the ledger was asked about the batch.
func (m *Monitor) Committed(ref store.Ref, attempt int, prepared []byte) {
	if !m.ledger.Traits(ref.Key.Service).Receipts {
		return
	}
	row := store.InFlight{Ref: ref, State: batch.Committed, Attempt: attempt, Prepared: prepared}
	select {
	case m.incompleteCommits <- &incompleteCommit{row, time.Now().Add(receiptsPause)}:
	default:
	}
}

// askForReceipts asks about one batch after the other, until ctx is done. Each question has the
// whole time limit of a request, and the ledger gets one at a time. Without an answer the record
// stays as it is.
func (m *Monitor) askForReceipts(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-m.incompleteCommits:
			if !loop.Sleep(ctx, time.Until(w.askTime)) {
				return
			}
			g := m.ledger.group([]inhand.Question{{Row: w.row}})[0]
			said, _ := m.ledger.statuses(ctx, g)
			if st := said[w.row.Key.ID]; st != nil && st.Reported == batch.ReportedCommitted && len(st.Receipts) > 0 {
				m.table.Put([]store.Outcome{{Ref: w.row.Ref, By: batch.ByMonitor, Finding: store.HasReceipts, Receipts: st.Receipts}})
			}
		}
	}
}
