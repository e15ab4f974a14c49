package dltbatch_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// newFileStore is a SQLite store for one test.
func newFileStore(t *testing.T) store.Store {
	db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	return st
}

// balances are a test's accounts, with their balances.
type balances map[string]int64

// moneyTransfer moves money from one purse to another, and does nothing if the first has too
// little. So its result depends on the transfers before it.
type moneyTransfer struct {
	from, to string
	amount   int64
}

func (p balances) apply(x moneyTransfer) (valid bool) {
	if p[x.from] < x.amount {
		return false
	}
	p[x.from] -= x.amount
	p[x.to] += x.amount
	return true
}

// sign makes a batch of two transactions, one for each purse.
func (x moneyTransfer) sign(t *testing.T, key sawtooth.Signer, service batch.ServiceID, nonce string) batch.Batch {
	take, from := sawtoothtest.Dec(x.from, x.amount)
	give, to := sawtoothtest.Inc(x.to, x.amount)
	b, err := sawtooth.Build(key, service, intkeyTransaction(take, from, nonce), intkeyTransaction(give, to, nonce))
	require.NoError(t, err)
	return b
}

func intkeyTransaction(payload []byte, address, nonce string) sawtooth.Transaction {
	return sawtooth.Transaction{
		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: nonce,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	}
}

// A node loses answers, is busy, and executes batches without conflicts in any order. Transfers
// among a few purses end as if they had been made one after the other: each purse has the same
// balance, and the same transfers were refused.
func TestParallelOnSawtooth(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": newFileStore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seed, n = 7, 60
			r := rand.New(rand.NewPCG(seed, 1))
			node := sawtoothtest.Start(t, &sawtoothtest.Options{
				BlockInterval: 20 * time.Millisecond, CacheTime: 250 * time.Millisecond,
				Faults: &sawtoothtest.Faults{Seed: seed, Busy: 0.03, ResetAfter: 0.03, Latency: 0.5, MaxLatency: 20 * time.Millisecond, Overtake: 0.5},
			})
			ledger, err := sawtooth.New(node.URL(), &sawtooth.Options{
				Grace: 150 * time.Millisecond, ResendQuiet: 350 * time.Millisecond, Settle: 50 * time.Millisecond,
			})
			require.NoError(t, err)
			defer ledger.CloseIdleConnections()
			runner := newRunner(t, open(t), ledger, &dltbatch.Options{Strategy: queuer.Parallel(0), PollInterval: 100 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 20 * time.Millisecond}})
			key, err := sawtooth.GeneratePrivateKey()
			require.NoError(t, err)

			want, valid, added := balances{}, map[batch.ID]bool{}, []batch.Batch{}
			names := make([]string, 12)
			for i := range names {
				names[i] = fmt.Sprint("purse", i)
				want[names[i]] = 20
				payload, address := sawtoothtest.Set(names[i], 20)
				b, err := sawtooth.Build(key, "bank", intkeyTransaction(payload, address, names[i]))
				require.NoError(t, err)
				valid[b.ID], added = true, append(added, b)
			}
			for i := range n {
				at := r.Perm(len(names))
				x := moneyTransfer{names[at[0]], names[at[1]], 1 + r.Int64N(25)}
				b := x.sign(t, key, "bank", fmt.Sprint(i))
				valid[b.ID], added = want.apply(x), append(added, b)
			}
			require.NoError(t, runner.Add(t.Context(), added...))
			stop := startRun(t, runner)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			require.NoError(t, runner.Idle(ctx))
			require.NoError(t, stop())

			refused := 0
			var order []batch.ID
			for _, b := range added {
				rec, err := runner.Get(t.Context(), b.Key())
				require.NoError(t, err)
				require.Equal(t, valid[b.ID], rec.State == batch.Committed, "%s: %v", rec.State, rec.Error)
				if valid[b.ID] {
					order = append(order, b.ID)
				} else {
					refused++
				}
			}
			got := balances{}
			for _, name := range names {
				got[name], _ = node.Value(name)
			}
			require.True(t, maps.Equal(want, got), "want %v, got %v", want, got)
			chain := node.Chain()
			require.ElementsMatch(t, order, chain, "each once")
			assert.NotEqual(t, order, chain, "executed in another order")
			assert.Greater(t, refused, n/20, "transfers that were refused")
		})
	}
}

// For a ledger without footprints of its own, the strategy uses the footprints that the
// application declares.
func TestParallelOnSQLite(t *testing.T) {
	const lanes, each = 3, 25
	faults := ledgermem.Faults{Seed: 3, Busy: 0.03, LostReply: 0.03, MaxLatency: 20 * time.Millisecond}
	traits := ledgermem.Unforgiving(50 * time.Millisecond)
	traits.MaxInFlightPerService = 5
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: 5 * time.Millisecond, Fault: faults.Fault})
	runner := newRunner(t, newFileStore(t), ledger, &dltbatch.Options{
		Strategy: queuer.Parallel(20), PollInterval: 50 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 20 * time.Millisecond},
		RequestTimeout: 5 * time.Second, ClaimTTL: 10 * time.Second,
	})
	stop := startRun(t, runner)
	added := map[batch.ServiceID][]batch.Batch{}
	for i := range lanes * each {
		b := newBatch(batch.ServiceID(fmt.Sprint("s", i%lanes)), batch.ID(fmt.Sprintf("b%03d", i)))
		b.Footprint.Writes = []string{fmt.Sprint("account/", i/lanes%7)}
		if i%11 == 0 {
			b.Footprint.Reads = []string{"account/"} // a batch that reads all accounts
		}
		require.NoError(t, runner.Add(t.Context(), b))
		added[b.Service] = append(added[b.Service], b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, runner.Idle(ctx))
	require.NoError(t, stop())
	require.NoError(t, ledger.Verify(nil))
	overtook := 0
	for service, bs := range added {
		place := map[batch.ID]int{}
		for i, id := range ledger.Log(service) {
			place[id] = i + 1
		}
		require.Len(t, place, each)
		for i, b := range bs {
			require.Positive(t, place[b.ID], "%s is not there", b.ID)
			for _, a := range bs[:i] {
				if place[b.ID] < place[a.ID] {
					overtook++
					require.False(t, a.Footprint.Conflicts(b.Footprint), "%s overtook %s", b.ID, a.ID)
				}
			}
		}
	}
	assert.Positive(t, overtook)
	under, most := map[batch.ServiceID]int{}, 0
	for _, e := range ledger.Journal() {
		switch e.Kind {
		case ledgermem.PostStart:
			under[e.Key.Service]++
			most = max(most, under[e.Key.Service])
		case ledgermem.PostEnd:
			under[e.Key.Service]--
		}
	}
	assert.Greater(t, most, 1, "several at once")
	assert.LessOrEqual(t, most, 5, "no more than the ledger takes")
}
