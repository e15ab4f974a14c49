package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// callRecorder is an observer that keeps all calls.
type callRecorder struct {
	mu      sync.Mutex
	calls   []batch.Call
	tenants []any // the tenant in the context of each call
}

func (b *callRecorder) ObserveCall(ctx context.Context, c batch.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.tenants = append(b.calls, c), append(b.tenants, ctx.Value(tenantKey{}))
}

// callsOf returns the calls of one operation of one part.
func (b *callRecorder) callsOf(part, op string) (out []batch.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if c.Part == part && c.Op == op {
			out = append(out, c)
		}
	}
	return out
}

// itemCount returns the sum of the items.
func itemCount(calls []batch.Call) (n int) {
	for _, c := range calls {
		n += c.Items
	}
	return n
}

// upkeepStore is a memory store with an Upkeep that gives a warning.
type upkeepStore struct{ *memory.Store }

func (upkeepStore) Upkeep(context.Context) ([]store.Warning, error) {
	return []store.Warning{{Name: "w", Err: errors.New("worn")}}, nil
}

// preparingLedger is a ledger whose client prepares.
type preparingLedger struct{ *ledgermem.Ledger }

func (preparingLedger) Prepare(_ context.Context, b batch.Attempt) ([]byte, error) {
	return []byte(b.ID), nil
}

// documentedOps returns the operations that the documentation of batch.Call names.
func documentedOps(t *testing.T) (ops []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "batch/call.go", nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		if !ok || len(f.Names) == 0 || f.Names[0].Name != "Op" || len(ops) > 0 {
			return true
		}
		text := strings.Join(strings.Fields(f.Doc.Text()), " ")
		for part, list := range map[string]string{
			"ledger": regexp.MustCompile(`Of the ledger: ([a-z_, ]+)\.`).FindStringSubmatch(text)[1],
			"store":  regexp.MustCompile(`Of the store: ([a-z_, ]+)\.`).FindStringSubmatch(text)[1],
		} {
			for op := range strings.SplitSeq(list, ", ") {
				ops = append(ops, part+" "+op)
			}
		}
		return false
	})
	slices.Sort(ops)
	return ops
}

// Each call is reported once, under an operation that the documentation lists, and each listed
// operation occurs.
func TestCallsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &callRecorder{}
		ctx := t.Context()

		traits := ledgermem.Unforgiving(0)
		traits.MaxList = 4
		listed := newRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: 5 * time.Second}), &dltbatch.Options{Calls: told, Strategy: queuer.Pipelined(4)})
		for i := range 8 {
			require.NoError(t, listed.Add(ctx, newBatch("s", batch.ID(fmt.Sprint(i)))))
		}
		stop := startRun(t, listed)
		waitIdle(t, listed)
		require.NoError(t, stop())
		assert.Equal(t, 8, itemCount(told.callsOf("ledger", "submit"))+itemCount(told.callsOf("ledger", "submit_list")))
		assert.Greater(t, itemCount(told.callsOf("ledger", "submit_list")), len(told.callsOf("ledger", "submit_list")))
		assert.Equal(t, 8, itemCount(told.callsOf("store", "add")))
		assert.Equal(t, 8, itemCount(told.callsOf("store", "claim")))

		traits = ledgermem.Unforgiving(0)
		traits.Prepares = true
		ledger := preparingLedger{ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) ledgermem.Fault {
			switch {
			case a.ID == "bad":
				return ledgermem.Fault{Kind: ledgermem.Rejected}
			case a.ID == "lost" && a.Number == 1:
				return ledgermem.Fault{Kind: ledgermem.LostRequest}
			case a.ID == "slow":
				return ledgermem.Fault{Latency: 2 * time.Second}
			}
			return ledgermem.Fault{}
		}})}
		st := memory.New()
		r := newRunner(t, upkeepStore{st}, ledger, &dltbatch.Options{Calls: told, Policy: batch.PolicyQuarantine})
		bad, undone, lost, slow := newBatch("s", "bad"), newBatch("paused", "undone"), newBatch("t", "lost"), newBatch("u", "slow")
		c, err := r.Pause(withTenant(ctx, "pause"), batch.Only("paused"), somebody)
		require.NoError(t, err)
		tx := st.Begin()
		require.NoError(t, r.AddTx(ctx, st.Tx(tx), bad, undone, lost, slow))
		require.NoError(t, tx.Commit())
		_, err = r.Cancel(ctx, recordOf(t, r, undone), somebody)
		require.NoError(t, err)
		_, err = r.Resume(ctx, c, somebody)
		require.NoError(t, err)
		stop = startRun(t, r)
		for _, b := range []batch.Batch{bad, lost, slow} {
			awaitFinal(t, r, b)
		}
		time.Sleep(2 * time.Minute)
		_, err = r.Requeue(ctx, recordOf(t, r, bad), somebody)
		require.NoError(t, err)
		awaitFinal(t, r, bad)
		synctest.Wait()
		_, err = r.Acquit(ctx, recordOf(t, r, bad), somebody)
		require.NoError(t, err)
		_, err = r.Decide(ctx, recordOf(t, r, lost), batch.NotExecutedReject, somebody)
		require.Error(t, err)
		_, err = r.Control(ctx, batch.Only("s"))
		require.NoError(t, err)
		_, err = r.History(ctx, bad.Key())
		require.NoError(t, err)
		_, err = r.LaneHistory(ctx, batch.Only("s"))
		require.NoError(t, err)
		_, err = r.Attempts(ctx, bad.Key())
		require.NoError(t, err)
		_, err = r.Explain(ctx, bad.Key())
		require.NoError(t, err)
		_, err = r.Stats(ctx)
		require.NoError(t, err)
		traits.Renews, traits.Withdraws, traits.ResendHarmlessFor = true, true, dlt.Forever
		able := newRunner(t, memory.New(), preparingLedger{ledgermem.New(&ledgermem.Options{Traits: &traits})}, &dltbatch.Options{Calls: told})
		require.NoError(t, able.Add(ctx, bad))
		_, err = able.Withdraw(ctx, recordOf(t, able, bad), somebody)
		require.ErrorIs(t, err, batch.ErrNotAllowed)
		_, err = r.Get(ctx, batch.Key{Service: "s", ID: "none"})
		require.ErrorIs(t, err, batch.ErrNotFound)
		require.NoError(t, stop())

		ops := map[string]bool{}
		for _, call := range told.calls {
			ops[call.Part+" "+call.Op] = true
			assert.GreaterOrEqual(t, call.Took, time.Duration(0))
		}
		assert.Equal(t, documentedOps(t), slices.Sorted(maps.Keys(ops)), "the words that are documented, each of them used")
		assert.Equal(t, 4, itemCount(told.callsOf("store", "add_tx")))
		posts := map[string]int{}
		for _, call := range told.callsOf("ledger", "submit") {
			posts[fmt.Sprint(call.Took, " ", dlt.Kind(call.Err))]++
		}
		assert.Equal(t, 1, posts["2s "], "slow")
		assert.Equal(t, 2, posts["0s rejected"], "a refusal is an error here")
		assert.Equal(t, 1, posts["0s doubt"])
		last := told.callsOf("store", "get")
		require.ErrorIs(t, last[len(last)-1].Err, batch.ErrNotFound)
		require.Error(t, told.callsOf("store", "decide")[0].Err)
		upkeep := told.callsOf("store", "upkeep")
		assert.Equal(t, 1, upkeep[len(upkeep)-1].Items, "the warning that came back")
		i := slices.IndexFunc(told.calls, func(c batch.Call) bool { return c.Op == "steer" })
		assert.Equal(t, "pause", told.tenants[i], "with the caller's context")
	})
}

// A panic of a CallObserver disturbs no call, and a call that panics is reported, too.
func TestCallObserversThatPanicAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{Calls: panickyCallObserver{}, Logger: log.logger(slog.LevelWarn)})
		stop := startRun(t, r)
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		require.NoError(t, stop())
		assert.Contains(t, log.String(), "boom in the call observer")
		assert.Equal(t, 2, strings.Count(log.String(), "\n"), "the first, and the sum: %s", log)

		told := &callRecorder{}
		ledger := &panickyLedger{Ledger: ledgermem.New(nil), method: "BatchStatuses"}
		r = newRunner(t, memory.New(), ledger, &dltbatch.Options{Calls: told})
		stop = startRun(t, r)
		synctest.Wait()
		ledger.isPanicking.Store(true)
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Second)
		ledger.isPanicking.Store(false)
		awaitFinal(t, r, b)
		require.NoError(t, stop())
		assert.EqualError(t, told.callsOf("ledger", "statuses")[0].Err, "panic: boom in BatchStatuses")
	})
}

type panickyCallObserver struct{}

func (panickyCallObserver) ObserveCall(context.Context, batch.Call) {
	panic("boom in the call observer")
}
