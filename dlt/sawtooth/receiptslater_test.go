package sawtooth_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// Receipts that came too late for the verdict are in the record soon after it, without another
// event. The Runner asks for them once more, and not again.
func TestReceiptsThatCameLate(t *testing.T) {
	for name, c := range map[string]struct {
		hangCount int32         // how many requests are never answered
		delay     time.Duration // the delay of each other request
		isOff     bool
		want      int   // the number of receipts
		asked     int32 // the number of requests: two for receipts, or one that hung
	}{
		"in time":          {want: 1, asked: 2},
		"one hung":         {hangCount: 1, want: 1, asked: 3},
		"each takes 6 s":   {delay: 6 * time.Second, want: 1, asked: 3},
		"they never come":  {hangCount: 1000, asked: 2},
		"nobody wants any": {hangCount: 1000, isOff: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				n, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: time.Second, Faults: &sawtoothtest.Faults{
					Request: func(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
						switch {
						case p.Operation != sawtoothtest.OpLookup:
							return sawtoothtest.Fault{}
						case asked.Add(1) <= c.hangCount:
							return sawtoothtest.Fault{Answer: sawtoothtest.AnswerNever}
						}
						return sawtoothtest.Fault{Delay: c.delay}
					},
				}})
				require.NoError(t, err)
				defer n.Close()
				client := newClient(t, "http://node", &sawtooth.Options{Client: n.Client(), Receipts: !c.isOff, NoEvents: true})
				var mu sync.Mutex
				final := 0
				r, err := dltbatch.New(memory.New(), client, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == batch.EventFinal || e.Kind == batch.EventOrderBreach {
						final++
					}
				})})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				b := settingBatch(t, "x")
				begin := time.Now()
				require.NoError(t, r.Add(ctx, b))
				rec, err := r.Await(ctx, b.Key())
				require.NoError(t, err)
				require.Equal(t, batch.Committed, rec.State)
				assert.Less(t, time.Since(begin), 10*time.Second, "the verdict does not wait longer")
				time.Sleep(time.Minute)
				got, err := r.Get(ctx, b.Key())
				require.NoError(t, err)
				assert.Len(t, got.Receipts, c.want)
				assert.Equal(t, rec.FinalAt, got.FinalAt)
				time.Sleep(10 * time.Minute)
				assert.Equal(t, c.asked, asked.Load(), "requests for receipts")
				cancel()
				require.NoError(t, <-done)
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, 1, final, "events")
				client.CloseIdleConnections()
			})
		})
	}
}
