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

// callbook is an observer that keeps all calls.
type callbook struct {
	mu  sync.Mutex
	all []batch.Call
	ctx []any // the tenant in the context of each call
}

func (b *callbook) ObserveCall(ctx context.Context, c batch.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all, b.ctx = append(b.all, c), append(b.ctx, ctx.Value(tenant{}))
}

// of returns the calls of one operation of one part.
func (b *callbook) of(part, op string) (out []batch.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.all {
		if c.Part == part && c.Op == op {
			out = append(out, c)
		}
	}
	return out
}

// items returns the sum of the items.
func items(calls []batch.Call) (n int) {
	for _, c := range calls {
		n += c.Items
	}
	return n
}

// workshop is a memory store with an Upkeep that gives a warning.
type workshop struct{ *memory.Store }

func (workshop) Upkeep(context.Context) ([]store.Warning, error) {
	return []store.Warning{{Name: "w", Err: errors.New("worn")}}, nil
}

// careful is a ledger whose client prepares.
type careful struct{ *ledgermem.Ledger }

func (careful) Prepare(_ context.Context, b batch.Attempt) ([]byte, error) { return []byte(b.ID), nil }

// documented returns the operations that the documentation of batch.Call names.
func documented(t *testing.T) (ops []string) {
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
		told := &callbook{}
		ctx := t.Context()

		traits := ledgermem.Unforgiving(0)
		traits.MaxList = 4
		listed := newRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: 5 * time.Second}), &dltbatch.Options{Calls: told, Strategy: queuer.Pipelined(4)})
		for i := range 8 {
			require.NoError(t, listed.Add(ctx, one("s", batch.ID(fmt.Sprint(i)))))
		}
		stop := running(t, listed)
		idle(t, listed)
		require.NoError(t, stop())
		assert.Equal(t, 8, items(told.of("ledger", "submit"))+items(told.of("ledger", "submit_list")))
		assert.Greater(t, items(told.of("ledger", "submit_list")), len(told.of("ledger", "submit_list")))
		assert.Equal(t, 8, items(told.of("store", "add")))
		assert.Equal(t, 8, items(told.of("store", "claim")))

		traits = ledgermem.Unforgiving(0)
		traits.Prepares = true
		ledger := careful{ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) ledgermem.Fault {
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
		r := newRunner(t, workshop{st}, ledger, &dltbatch.Options{Calls: told, Policy: batch.PolicyQuarantine})
		bad, undone, lost, slow := one("s", "bad"), one("paused", "undone"), one("t", "lost"), one("u", "slow")
		c, err := r.Pause(from(ctx, "pause"), batch.Only("paused"), somebody)
		require.NoError(t, err)
		tx := st.Begin()
		require.NoError(t, r.AddTx(ctx, st.Tx(tx), bad, undone, lost, slow))
		require.NoError(t, tx.Commit())
		_, err = r.Cancel(ctx, see(t, r, undone), somebody)
		require.NoError(t, err)
		_, err = r.Resume(ctx, c, somebody)
		require.NoError(t, err)
		stop = running(t, r)
		for _, b := range []batch.Batch{bad, lost, slow} {
			await(t, r, b)
		}
		time.Sleep(2 * time.Minute)
		_, err = r.Requeue(ctx, see(t, r, bad), somebody)
		require.NoError(t, err)
		await(t, r, bad)
		synctest.Wait()
		_, err = r.Acquit(ctx, see(t, r, bad), somebody)
		require.NoError(t, err)
		_, err = r.Decide(ctx, see(t, r, lost), batch.NotExecutedReject, somebody)
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
		able := newRunner(t, memory.New(), careful{ledgermem.New(&ledgermem.Options{Traits: &traits})}, &dltbatch.Options{Calls: told})
		require.NoError(t, able.Add(ctx, bad))
		_, err = able.Withdraw(ctx, see(t, able, bad), somebody)
		require.ErrorIs(t, err, batch.ErrNotAllowed)
		_, err = r.Get(ctx, batch.Key{Service: "s", ID: "none"})
		require.ErrorIs(t, err, batch.ErrNotFound)
		require.NoError(t, stop())

		ops := map[string]bool{}
		for _, call := range told.all {
			ops[call.Part+" "+call.Op] = true
			assert.GreaterOrEqual(t, call.Took, time.Duration(0))
		}
		assert.Equal(t, documented(t), slices.Sorted(maps.Keys(ops)), "the words that are documented, each of them used")
		assert.Equal(t, 4, items(told.of("store", "add_tx")))
		posts := map[string]int{}
		for _, call := range told.of("ledger", "submit") {
			posts[fmt.Sprint(call.Took, " ", dlt.Kind(call.Err))]++
		}
		assert.Equal(t, 1, posts["2s "], "slow")
		assert.Equal(t, 2, posts["0s rejected"], "a refusal is an error here")
		assert.Equal(t, 1, posts["0s doubt"])
		last := told.of("store", "get")
		require.ErrorIs(t, last[len(last)-1].Err, batch.ErrNotFound)
		require.Error(t, told.of("store", "decide")[0].Err)
		upkeep := told.of("store", "upkeep")
		assert.Equal(t, 1, upkeep[len(upkeep)-1].Items, "the warning that came back")
		i := slices.IndexFunc(told.all, func(c batch.Call) bool { return c.Op == "steer" })
		assert.Equal(t, "pause", told.ctx[i], "with the caller's context")
	})
}

// A panic of a CallObserver disturbs no call, and a call that panics is reported, too.
func TestCallObserversThatPanicAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{Calls: panickyCalls{}, Logger: log.logger(slog.LevelWarn)})
		stop := running(t, r)
		b := one("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		assert.Equal(t, batch.Committed, await(t, r, b).State)
		require.NoError(t, stop())
		assert.Contains(t, log.String(), "boom in the call observer")
		assert.Equal(t, 2, strings.Count(log.String(), "\n"), "the first, and the sum: %s", log)

		told := &callbook{}
		ledger := &panicky{Ledger: ledgermem.New(nil), in: "BatchStatuses"}
		r = newRunner(t, memory.New(), ledger, &dltbatch.Options{Calls: told})
		stop = running(t, r)
		synctest.Wait()
		ledger.panics.Store(true)
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Second)
		ledger.panics.Store(false)
		await(t, r, b)
		require.NoError(t, stop())
		assert.EqualError(t, told.of("ledger", "statuses")[0].Err, "panic: boom in BatchStatuses")
	})
}

type panickyCalls struct{}

func (panickyCalls) ObserveCall(context.Context, batch.Call) { panic("boom in the call observer") }
