package autobatch_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
)

var simulationSeeds = flag.Int("autobatch.seeds", tier.Seeds(20, 200), "seeds of the simulation")

// ledgerKinds are the ledgers of the simulation, one of them for each seed.
var ledgerKinds = []struct {
	traits dlt.Traits
	ignore bool
}{
	{traits: dlt.Traits{ // this ledger executes duplicates
		Name: "memory", LateArrival: 3 * time.Second, MaxIDsPerQuery: 50, GroupsByService: true,
		PressureScope: dlt.ScopeService, Resolves: true,
	}},
	{ignore: true, traits: dlt.Traits{ // like Sawtooth
		Name: "memory", ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
		ResendQuiet: 60 * time.Second, Settle: 5 * time.Second, MaxIDsPerQuery: 50, Resolves: true,
	}},
	{ignore: true, traits: dlt.Traits{ // like Sawtooth without evidence, so that a person decides
		Name: "memory", ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
		ResendQuiet: 60 * time.Second, Settle: 5 * time.Second, MaxIDsPerQuery: 50,
	}},
}

// TestSimulation: two engines and two Runners on one store die at any call of the store. The
// ledger loses batches, executes them twice or late, and cannot be reached for so long that
// budgets are used up. Some orders make their batches invalid, and Builders fail. Every order ends
// exactly once, in the state that the ledger's books show.
func TestSimulation(t *testing.T) {
	tally := map[string]int{}
	for n := uint64(1); n <= uint64(*simulationSeeds); n++ {
		if !t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for what, n := range simulate(t, n) {
					tally[what] += n
				}
			})
		}) {
			t.Fatalf("seed %d: run it alone: go test ./batch/autobatch -run 'TestSimulation/seed=%d$'", n, n)
		}
	}
	t.Log(tally)
	if *simulationSeeds < 50 {
		return
	}
	for _, what := range []string{ // otherwise the seeds prove nothing
		"prepared", "settled confirmed", "settled quarantined", "settled halved", "settled put back",
		"refused halved", "refused quarantined", "expired", "trouble", "died",
	} {
		require.NotZero(t, tally[what], what)
	}
}

func simulate(t *testing.T, seed uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	k := ledgerKinds[seed%uint64(len(ledgerKinds))]
	faults := ledgermem.Faults{
		Seed: seed, Busy: 0.05, Unavailable: 0.03, Misconfigured: 0.01, LostRequest: 0.05, LostReply: 0.08,
		Late: 0.08, Hang: 0.02, HangAccepted: 0.03, MaxLatency: 300 * time.Millisecond, MaxDelay: k.traits.LateArrival, LastAttempt: 4,
	}
	if k.ignore {
		faults.InvalidFirst, faults.MaxDelay = 0.05, k.traits.Settle/2
	}
	start := time.Now()
	away, back := time.Duration(rng.IntN(20))*time.Second, time.Duration(20+rng.IntN(60))*time.Second
	var restarted atomic.Bool
	outage := rng.IntN(2) == 0
	w, stop := newSimulation(t, seed, autobatch.Options{
		MaxSize: 1 + rng.IntN(12), MaxBytes: 20 + rng.IntN(100), MaxAttempts: 1 + rng.IntN(3),
		BatchInterval: time.Second, Drain: 20 * time.Second,
	}, ledgermem.Options{
		Traits: &k.traits, IgnoreDuplicates: k.ignore, CommitAfter: time.Duration(rng.IntN(1000)) * time.Millisecond,
		Fault: func(a batch.Attempt) ledgermem.Fault {
			if since := time.Since(start); outage && since > away && since < back {
				return ledgermem.Fault{Kind: []ledgermem.FaultKind{ledgermem.Busy, ledgermem.Unavailable}[seed%2]}
			}
			f := faults.Fault(a)
			f.InvalidFirst = f.InvalidFirst && restarted.Load()       // otherwise a good order would stay invalid
			if strings.HasPrefix(string(a.Payload), refusedPayload) { // dlt/memory refuses on submission only
				switch f.Kind {
				case ledgermem.LostReply, ledgermem.Late, ledgermem.HangAccepted:
					f.Kind = ledgermem.LostRequest
				}
			}
			return f
		},
	})
	w.runInstances(0)
	w.runInstances(1)
	if k.ignore && !k.traits.Resolves {
		w.instances.Go(w.actAsOperator)
	}
	poison := rng.IntN(6)
	for i := range 30 + rng.IntN(40) {
		o := order.Order{ID: order.ID(fmt.Sprintf("o%03d", i)), Party: batch.ServiceID(fmt.Sprint("p", rng.IntN(3))), Payload: []byte(payPayload)}
		switch rng.IntN(60) {
		case 0, 1, 2, 3, 4:
			if poison > 2 {
				o.Payload = []byte([]string{refusedPayload, invalidPayload, unbuildablePayload}[rng.IntN(3)])
			}
		case 5, 6:
			o.Urgent = true
		case 7, 8, 9:
			o.Deadline = time.Now().Add(time.Duration(rng.IntN(5000)) * time.Millisecond)
		case 10, 11:
			o.Priority = 1 + rng.IntN(2)
		}
		w.add(i%2, o)
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		}
		if i == 25 {
			w.books.Restart()
			restarted.Store(true)
		}
	}
	time.Sleep(60 * time.Second)
	w.isCalm.Store(true)
	w.check()
	stop()
	w.instances.Wait()
	return w.eventCounts
}

// TestDeathAtEveryStep: the process dies at each call of the store in turn, before or after the
// call takes effect. Some orders have to be divided, and one is put back.
func TestDeathAtEveryStep(t *testing.T) {
	tier.Plain(t)
	for last := uint64(1); last <= 60; last++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				busy := 0
				w, stop := newSimulation(t, last, autobatch.Options{MaxSize: 8, MaxAttempts: 1}, ledgermem.Options{
					Traits: &ledgerKinds[0].traits,
					Fault: func(batch.Attempt) ledgermem.Fault {
						if busy++; busy == 1 {
							return ledgermem.Fault{Kind: ledgermem.Busy}
						}
						return ledgermem.Fault{}
					},
				})
				w.isCalm.Store(true)
				for i := range 8 {
					o := order.Order{ID: order.ID(fmt.Sprintf("o%d", i)), Party: "p", Payload: []byte(payPayload)}
					if i == 5 {
						o.Payload = []byte(invalidPayload)
					}
					w.add(1, o)
				}
				w.instances.Go(func() {
					w.runInstance(0, time.Hour, last, after)
					w.runInstance(0, 1000*time.Hour, 0, false)
				})
				w.check()
				stop()
				w.instances.Wait()
			})
			if t.Failed() {
				t.Fatalf("died at call %d, after it: %v", last, after)
			}
		}
	}
}
