package cantontest_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

var runsAllPoisonous = flag.Bool("canton.poisonous", false, "on SQLite, too, parties of which 16 and all 256 orders are poisonous")

// partyOrders is the orders of a party, some of which are poisonous.
type partyOrders struct {
	party  batch.ServiceID
	orders []order.Order
	isBad  map[order.ID]bool
}

func newPartyOrders(party string, n, k int, poison cantontest.Poison, seed uint64) partyOrders {
	l := partyOrders{party: batch.ServiceID(party), isBad: map[order.ID]bool{}}
	chosen := map[int]bool{}
	for _, i := range rand.New(rand.NewPCG(seed, uint64(k))).Perm(n)[:k] {
		chosen[i] = true
	}
	for i := range n {
		id, p := fmt.Sprintf("%s-%03d", party, i), cantontest.Poison("")
		if chosen[i] {
			l.isBad[order.ID(id)], p = true, poison
		}
		l.orders = append(l.orders, orderOf(id, l.party, p))
	}
	return l
}

// check waits for the orders, and compares the participant's book with them: exactly the poisonous
// orders are quarantined, each after a refusal of that order alone, with no more submissions than
// the limit allows.
func (l partyOrders) check(t *testing.T, p *cantontest.Participant, st order.Store, await func(context.Context, order.ID) (order.Record, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // an hour of virtual time
	defer cancel()
	submissions, refused := map[string]bool{}, map[string]bool{}
	records := make([]order.Record, len(l.orders))
	for i, o := range l.orders {
		var err error
		records[i], err = await(ctx, o.ID)
		require.NoError(t, err, o.ID)
	}
	for _, e := range p.Journal() {
		if e.Party != string(l.party) {
			continue
		}
		submissions[e.CommandID] = true
		refused[e.CommandID] = refused[e.CommandID] || e.Kind == cantontest.Refused || e.Kind == cantontest.Rejected
	}
	for i, o := range l.orders {
		rec := records[i]
		if !l.isBad[o.ID] {
			require.Equal(t, order.Confirmed, rec.State, "%+v", rec)
			require.EqualValues(t, 1, paidTo(p, o.ID), "%+v", rec)
			continue
		}
		require.Equal(t, order.Quarantined, rec.State, "%+v", rec)
		require.Zero(t, paidTo(p, o.ID), "%+v", rec)
		require.True(t, refused[string(rec.Batch)], "%+v", rec)
		alone, _, err := st.ListOrders(ctx, order.ListQuery{Batch: rec.Batch})
		require.NoError(t, err)
		require.Len(t, alone, 1, "it was refused alone")
	}
	bound := 1
	if n, k := float64(len(l.orders)), float64(len(l.isBad)); k > 0 {
		bound += int(2 * k * (math.Log2(n/k) + 1))
	}
	assert.LessOrEqual(t, len(submissions), bound, "%d poisonous of %d", len(l.isBad), len(l.orders))
}

// TestPoisonous: the participant refuses some orders, in its answer or in a completion, in virtual
// time.
func TestPoisonous(t *testing.T) {
	tier.Plain(t)
	for poison, counts := range map[cantontest.Poison][]int{cantontest.PoisonSync: {1, 16}, cantontest.PoisonAsync: {0, 1, 3, 16, 256}} {
		for _, k := range counts {
			t.Run(fmt.Sprint(poison, " ", k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := startParticipant(t, nil)
					st := memory.New()
					a := startProcess(t, p, st, canton.Options{}, false)
					defer a.stopAndWait()
					l := newPartyOrders("Alice", 256, k, poison, 1)
					require.NoError(t, a.Add(t.Context(), l.orders...))
					l.check(t, p, st, a.Await)
				})
			})
		}
	}
}

// TestPoisonousOnSQLite: the participant refuses some orders of several parties at once, over
// sockets and with a database.
func TestPoisonousOnSQLite(t *testing.T) {
	tier.Plain(t)
	p := cantontest.Start(t, &cantontest.Options{CompleteAfter: time.Millisecond})
	client, err := canton.New(p.URL(), &canton.Options{UserID: "app", IdleWait: 100 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	st := openSQLite(t)
	builder, err := canton.NewOrderBuilder(commandOf, nil)
	require.NoError(t, err)
	var runner *dltbatch.Runner
	engine, err := autobatch.New(st, builder, &autobatch.Options{MaxSize: 256, Wake: func(s batch.ServiceID) { runner.Wake(s) }})
	require.NoError(t, err)
	runner, err = dltbatch.New(st, client, &dltbatch.Options{Observer: engine})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- runner.Run(ctx) }()
	go func() { done <- engine.Run(ctx) }()
	defer func() {
		stop()
		assert.NoError(t, <-done)
		assert.NoError(t, <-done)
	}()
	counts := []int{0, 1, 3}
	if *runsAllPoisonous {
		counts = append(counts, 16, 256)
	}
	var lots []partyOrders
	for _, k := range counts {
		l := newPartyOrders("Party"+strconv.Itoa(k), 256, k, []cantontest.Poison{cantontest.PoisonSync, cantontest.PoisonAsync}[k%2], 2)
		require.NoError(t, engine.Add(ctx, l.orders...))
		lots = append(lots, l)
	}
	for _, l := range lots {
		l.check(t, p, st, engine.Await)
	}
}

// TestMisconfigurationNeverSplits: while the participant refuses all batches for a reason that is
// not the orders', the orders stay in one batch, which is then committed as it is.
func TestMisconfigurationNeverSplits(t *testing.T) {
	for _, id := range []string{"PERMISSION_DENIED", "NOT_CONNECTED_TO_ANY_SYNCHRONIZER", "INVALID_DEDUPLICATION_PERIOD"} {
		for how, fault := range map[string]cantontest.Fault{
			"at the door": {Answer: cantontest.AnswerError, Error: id}, "in completions": {Reject: id},
		} {
			t.Run(id+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := startParticipant(t, &cantontest.Options{Fault: func(at cantontest.RequestPoint) cantontest.Fault {
						if at.Operation != cantontest.OpSubmit {
							return cantontest.Fault{}
						}
						return fault
					}})
					st := memory.New()
					a := startProcess(t, p, st, canton.Options{}, false)
					defer a.stopAndWait()
					l := newPartyOrders("Alice", 16, 0, "", 1)
					require.NoError(t, a.Add(t.Context(), l.orders...))
					time.Sleep(time.Minute)
					p.SetFault(nil)
					for _, rec := range a.waitForOrders(t, p, l.orders...) {
						require.Empty(t, rec.Group)
						all, _, err := st.ListOrders(t.Context(), order.ListQuery{Batch: rec.Batch, Limit: 1000})
						require.NoError(t, err)
						require.Len(t, all, len(l.orders), "all of them together")
					}
				})
			})
		}
	}
}
