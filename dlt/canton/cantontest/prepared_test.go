package cantontest_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

func openSQLite(t *testing.T) *sqlite.Store {
	t.Helper()
	db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	return st
}

// recordingClient is a client that notes what the engine calls it with.
type recordingClient struct {
	*canton.Client
	mu                sync.Mutex
	prepareCount      map[batch.ID]int
	submittedPrepared map[batch.ID][]string
	postCount         map[batch.ID]int
}

func newRecordingClient(c *canton.Client) *recordingClient {
	return &recordingClient{Client: c, prepareCount: map[batch.ID]int{}, submittedPrepared: map[batch.ID][]string{}, postCount: map[batch.ID]int{}}
}

func (w *recordingClient) Prepare(ctx context.Context, b batch.Attempt) ([]byte, error) {
	w.mu.Lock()
	w.prepareCount[b.ID]++
	w.mu.Unlock()
	return w.Client.Prepare(ctx, b)
}

func (w *recordingClient) Submit(ctx context.Context, a batch.Attempt) error {
	w.mu.Lock()
	w.postCount[a.ID]++
	w.submittedPrepared[a.ID] = append(w.submittedPrepared[a.ID], string(a.Prepared))
	w.mu.Unlock()
	return w.Client.Submit(ctx, a)
}

func (w *recordingClient) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	w.mu.Lock()
	for _, a := range attempts {
		w.submittedPrepared[a.ID] = append(w.submittedPrepared[a.ID], string(a.Prepared))
	}
	w.mu.Unlock()
	return w.Client.BatchStatuses(ctx, s, attempts)
}

// A process dies after its prepared bytes were stored, before or after the POST. Then the ledger's
// end moves further than any client looks back. The next process uses the stored bytes.
func TestPreparedOutlivesItsProcess(t *testing.T) {
	for name, posted := range map[string]bool{"before its POST": false, "after its POST": true} {
		for driver, open := range map[string]func(*testing.T) store.Store{
			"memory": func(*testing.T) store.Store { return memory.New() }, "SQLite": func(t *testing.T) store.Store { return openSQLite(t) },
		} {
			t.Run(name+", "+driver, func(t *testing.T) {
				ctx := t.Context()
				p := cantontest.Start(t, &cantontest.Options{CompleteAfter: time.Millisecond, OffsetStep: 7})
				client, err := canton.New(p.URL(), &canton.Options{
					UserID: "app", LookBack: 1, PollOnly: true, IdleWait: 10 * time.Millisecond,
					LateArrival: 50 * time.Millisecond, Grace: 50 * time.Millisecond, DecidedWithin: 100 * time.Millisecond,
				})
				require.NoError(t, err)
				t.Cleanup(client.CloseIdleConnections)
				st := open(t)
				transfer := func(id batch.ID) batch.Batch {
					return batch.Batch{ID: id, Service: "Alice", Payload: cantontest.Payload(cantontest.Transfer{To: "Bank", Amount: 1})}
				}
				b := transfer("b")
				require.NoError(t, st.Add(ctx, b))
				claimed, err := st.Claim(ctx, store.ClaimQuery{
					Lanes: []batch.ServiceID{"Alice"}, Limit: 1, Window: 1, TTL: 10 * time.Millisecond,
					Resend: func(batch.ServiceID) store.Resend { return store.Resend{HarmlessFor: time.Hour} },
				}, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
				require.NoError(t, err)
				c := claimed.Runs[0].Batches[0]
				prepared, err := client.Prepare(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
				require.NoError(t, err)
				did, err := st.KeepPrepared(ctx, []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: prepared}})
				require.NoError(t, err)
				require.Equal(t, []bool{true}, did)
				if posted {
					require.NoError(t, client.Submit(ctx, batch.Attempt{Key: c.Key, Number: 1, Payload: b.Payload, Prepared: prepared}))
				}
				for _, id := range []batch.ID{"x1", "x2", "x3"} {
					x := transfer(id)
					require.NoError(t, client.Submit(ctx, batch.Attempt{Key: x.Key(), Number: 1, Payload: x.Payload}))
				}
				count := int64(3)
				if posted {
					count++
				}
				require.Eventually(t, func() bool { return p.Balance("Bank") == 1_000_000+count }, 10*time.Second, time.Millisecond)
				later, err := client.Prepare(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
				require.NoError(t, err)
				require.NotEqual(t, string(prepared), string(later), "the ledger has gone on")

				next, err := canton.New(p.URL(), &canton.Options{ // a client that has read nothing yet
					UserID: "app", LookBack: 1, PollOnly: true, IdleWait: 10 * time.Millisecond,
					LateArrival: 50 * time.Millisecond, Grace: 50 * time.Millisecond, DecidedWithin: 100 * time.Millisecond,
				})
				require.NoError(t, err)
				t.Cleanup(next.CloseIdleConnections)
				w := newRecordingClient(next)
				runner, err := dltbatch.New(st, w, &dltbatch.Options{
					RequestTimeout: 300 * time.Millisecond, ClaimTTL: 500 * time.Millisecond, PollInterval: 30 * time.Millisecond,
					Retry: dltbatch.RetryPolicy{Delay: 5 * time.Millisecond, MaxDelay: 30 * time.Millisecond, QuickRetryPause: 5 * time.Millisecond}, Drain: 2 * time.Second,
				})
				require.NoError(t, err)
				running, cancel := context.WithCancel(ctx)
				done := make(chan error, 1)
				go func() { done <- runner.Run(running) }()
				wait, stop := context.WithTimeout(ctx, 30*time.Second)
				defer stop()
				fresh := transfer("fresh")
				require.NoError(t, runner.Add(ctx, fresh))
				for _, k := range []batch.Key{b.Key(), fresh.Key()} {
					rec, err := runner.Await(wait, k)
					for err != nil && wait.Err() == nil { // a read may take longer than RequestTimeout
						rec, err = runner.Await(wait, k)
					}
					require.NoError(t, err)
					assert.Equal(t, batch.Committed, rec.State, "%+v", rec)
				}
				cancel()
				require.NoError(t, <-done)
				w.mu.Lock()
				defer w.mu.Unlock()
				assert.Equal(t, map[batch.ID]int{"fresh": 1}, w.prepareCount, "only what was never prepared is")
				assert.Equal(t, !posted, w.postCount["b"] == 1, "found by what was kept, or sent by it")
				assert.NotEmpty(t, w.submittedPrepared["b"])
				for _, h := range w.submittedPrepared["b"] {
					assert.Equal(t, string(prepared), h, "with every POST and every question")
				}
				for _, h := range w.submittedPrepared["fresh"] {
					assert.NotEmpty(t, h)
				}
				assert.EqualValues(t, 1_000_000+5, p.Balance("Bank"), "every transfer happened once")
			})
		}
	}
}
