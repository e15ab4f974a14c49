package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// submissions is a ledger that records what is submitted.
type submissions struct {
	*ledgermem.Ledger
	mu   sync.Mutex
	sent map[batch.ServiceID][]batch.ID
}

func (a *submissions) Submit(ctx context.Context, at batch.Attempt) error {
	a.mu.Lock()
	a.sent[at.Service] = append(a.sent[at.Service], at.ID)
	a.mu.Unlock()
	return a.Ledger.Submit(ctx, at)
}

// One process sends what four others add at the same time, although all five write to one file.
// Each batch is sent once, and each lane is sent in the order in which its batches were added.
func TestFourProcessesAdd(t *testing.T) {
	const adders, lanes, lines, together = 4, 5, 20, 4
	s, _, path := newTestStore(t)
	ledger := &submissions{Ledger: ledgermem.New(nil), sent: map[batch.ServiceID][]batch.ID{}}
	finals := make(chan batch.State, adders*lines*together)
	r, err := dltbatch.New(s, ledger, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		if e.Kind == batch.EventFinal {
			finals <- e.State
		}
	})})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()

	want := map[batch.ServiceID][]batch.ID{}
	var commandLines [adders][]string
	for i := range lines {
		for p := range adders {
			lane := batch.ServiceID(fmt.Sprintf("process%d-lane%d", p, i%lanes))
			line := fmt.Sprintf("add %s", lane)
			for k := range together {
				id := batch.ID(fmt.Sprintf("batch%d-%d-%d", p, i, k))
				want[lane] = append(want[lane], id)
				line += " " + string(id)
			}
			commandLines[p] = append(commandLines[p], line)
		}
	}
	var g errgroup.Group
	for p := range adders {
		o := startOtherProcess(t, path)
		g.Go(func() error {
			for _, line := range commandLines[p] {
				if err := o.run(line); err != nil {
					return err
				}
			}
			return o.close()
		})
	}
	require.NoError(t, g.Wait())
	for range adders * lines * together {
		select {
		case state := <-finals:
			require.Equal(t, batch.Committed, state)
		case <-time.After(time.Minute):
			require.Fail(t, "some batches are not final")
		}
	}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	assert.Equal(t, want, ledger.sent)
}
