package splintertest_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// A second execution that changes the state divides the circuit for good: it stalls for 30
// s, and then everything is rolled back, through restarts.
func TestSecondExecutionDivides(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		one := inc(t)
		send(t, n, a, one)
		time.Sleep(2 * time.Second)
		require.Equal(t, "Committed", word(t, n, a, one))
		require.Equal(t, root(t, n, a), root(t, n, b))
		begun := time.Now()
		send(t, n, a, one)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Valid", word(t, n, a, one))
		assert.NotEqual(t, root(t, n, a), root(t, n, b))
		later := []batch.Batch{inc(t), build(t, tx(splintertest.Set("other", 1)))}
		for _, x := range later {
			send(t, n, a, x)
			time.Sleep(6 * time.Second)
			assert.Equal(t, "Pending", word(t, n, a, x), "the coordinator waits for its peers")
		}
		time.Sleep(time.Until(begun.Add(32 * time.Second)))
		for _, x := range later {
			assert.Equal(t, "Valid", word(t, n, a, x))
		}
		for i := range 2 {
			n.Restart(i)
			more := inc(t)
			send(t, n, a, more)
			time.Sleep(40 * time.Second)
			assert.Equal(t, "Valid", word(t, n, a, more), "for ever")
			assert.Equal(t, []string{"Rejected"}, words(n, more))
		}
		since, divided := n.Divided(b)
		assert.True(t, divided)
		assert.WithinDuration(t, begun, since, time.Second)
		assert.Equal(t, []batch.ID{one.ID, one.ID}, n.Applied(a))
		assert.Equal(t, []batch.ID{one.ID}, n.Applied(b))
		assert.Equal(t, []string{"Committed", "Again"}, words(n, one))
		assert.Len(t, kinds(n, splintertest.Divided), 1)
		require.Error(t, n.Check(map[batch.ServiceID][]batch.ID{a: {one.ID}}))

		other := n.Services()[2] // the nodes are well otherwise
		fine := inc(t)
		send(t, n, other, fine)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Committed", word(t, n, other, fine))
	})
}

// Where its effect is the same, thirty seconds are lost, and nothing else.
func TestSecondExecutionOfTheSameEffect(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		a := n.Service(0)
		x, y := build(t, tx(splintertest.Set("x", 7))), inc(t)
		send(t, n, a, x)
		time.Sleep(2 * time.Second)
		before := root(t, n, a)
		begun := time.Now()
		send(t, n, a, x)
		send(t, n, a, y)
		time.Sleep(29 * time.Second)
		assert.Equal(t, "Valid", word(t, n, a, x))
		assert.Equal(t, before, root(t, n, a))
		assert.Equal(t, "Pending", word(t, n, a, y))
		time.Sleep(3 * time.Second)
		assert.Equal(t, "Committed", word(t, n, a, y))
		assert.Equal(t, "Valid", word(t, n, a, x))
		_, divided := n.Divided(a)
		assert.False(t, divided)
		assert.Less(t, time.Since(begun), 33*time.Second)
	})
}

// What a crash at each moment of two-phase commit leaves behind.
func TestCrashes(t *testing.T) {
	for name, row := range map[string]struct {
		at       splintertest.CrashPoint
		divided  bool
		receipts [2]int // of x
		effects  [2]int
		next     string // what is sent at once after the restart
		later    string // 40 s later
	}{
		"proposed":    {splintertest.CrashProposed, false, [2]int{0, 0}, [2]int{0, 0}, "Valid", "Committed"},
		"state":       {splintertest.CrashState, true, [2]int{0, 0}, [2]int{1, 0}, "Valid", "Valid"},
		"committed":   {splintertest.CrashCommitted, true, [2]int{1, 0}, [2]int{1, 0}, "Valid", "Valid"},
		"peer":        {splintertest.CrashPeer, true, [2]int{1, 0}, [2]int{1, 0}, "Valid", "Valid"},
		"peer, state": {splintertest.CrashPeerState, false, [2]int{1, 0}, [2]int{1, 1}, "Committed", "Committed"},
	} {
		for _, down := range []time.Duration{0, 1500 * time.Millisecond} {
			for _, version := range []int{1, 2} {
				t.Run(fmt.Sprint(name, " ", down, " v", version), func(t *testing.T) {
					o := measured(version)
					x, next, later := inc(t), inc(t), inc(t)
					o.Faults = &splintertest.Faults{Down: down, Batch: func(id batch.ID, _ int) (f splintertest.BatchFault) {
						if id == x.ID {
							f.Crash = row.at
						}
						return f
					}}
					virtual(t, o, func(t *testing.T, n *splintertest.Network) {
						a, b := n.Service(0), n.Service(1)
						send(t, n, a, x)
						time.Sleep(3 * time.Second)
						for i, s := range []batch.ServiceID{a, b} {
							assert.Len(t, n.Transactions(s), row.receipts[i], "receipts at %s", s)
							assert.Len(t, n.Applied(s), row.effects[i], "effects at %s", s)
						}
						_, divided := n.Divided(a)
						assert.Equal(t, row.divided, divided)
						assert.Len(t, kinds(n, splintertest.Restarted), 2, "both circuits of the node")
						begun := time.Now()
						send(t, n, a, next)
						time.Sleep(44 * time.Second)
						assert.Equal(t, row.next, word(t, n, a, next))
						send(t, n, a, later)
						time.Sleep(2 * time.Second)
						assert.Equal(t, row.later, word(t, n, a, later))
						if i := slices.IndexFunc(n.Journal(), func(e splintertest.Entry) bool {
							return e.Kind == splintertest.Executed && e.Batches[0] == next.ID && e.Word == "Rejected"
						}); i >= 0 && row.at != splintertest.CrashPeer {
							assert.GreaterOrEqual(t, n.Journal()[i].Time.Sub(begun), 30*time.Second, "the peer waits for the first one's end")
						}
					})
				})
			}
		}
	}
}

// Kill -9 at half a second: the coordinator's queue and history are gone, its peer goes on
// waiting, and the next batch pays for it.
func TestKillWithAProposalOpen(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		old, x, queued := inc(t), inc(t), inc(t)
		send(t, n, a, old)
		time.Sleep(2 * time.Second)
		send(t, n, a, x)
		send(t, n, a, queued)
		time.Sleep(400 * time.Millisecond)
		n.Kill(0)
		assert.Equal(t, "Valid", word(t, n, b, x))
		time.Sleep(time.Second)
		require.NoError(t, n.Start(0))
		for _, b := range []batch.Batch{old, x, queued} {
			assert.Equal(t, "Unknown", word(t, n, a, b), "memory is gone")
		}
		assert.Equal(t, []batch.ID{old.ID}, n.Executions(a), "what was committed stays")
		assert.Len(t, n.Transactions(a), 1, "and its receipts")
		y0 := inc(t)
		send(t, n, a, y0)
		time.Sleep(44 * time.Second)
		assert.Equal(t, "Valid", word(t, n, a, y0))
		assert.Equal(t, []string{"Rejected"}, words(n, y0))
		for range 2 {
			y := inc(t)
			send(t, n, a, y)
			time.Sleep(time.Second)
			assert.Equal(t, "Committed", word(t, n, a, y))
		}
		assert.Equal(t, root(t, n, a), root(t, n, b))
	})
}

// While a peer is down its circuits stall, and lose what they proposed.
func TestPeerDown(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		a := n.Service(0)
		n.Kill(1)
		x, y := inc(t), inc(t)
		send(t, n, a, x)
		send(t, n, a, y)
		time.Sleep(29 * time.Second)
		assert.Equal(t, "Pending", word(t, n, a, y))
		require.NoError(t, n.Start(1))
		time.Sleep(3 * time.Second)
		assert.Equal(t, "Valid", word(t, n, a, x))
		assert.Equal(t, []string{"Rejected"}, words(n, x))
		assert.Equal(t, "Committed", word(t, n, a, y))
	})
}

// Poison of every kind stalls for 300 s, stays Pending, and lets the next one commit;
// where there is no program nothing is executed any more.
func TestPoisonKinds(t *testing.T) {
	family, version := tx(splintertest.Set("x", 1)), tx(splintertest.Set("x", 1))
	family.FamilyName, version.FamilyVersion = "nobody", "9.9"
	for name, row := range map[string]struct {
		b    batch.Batch
		next string
	}{
		"family": {build(t, family), "Committed"}, "version": {build(t, version), "Committed"},
		"trap": {build(t, tx(splintertest.Trap("x"))), "Committed"}, "no wasm": {build(t, tx(splintertest.NoWasm("x"))), "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
				a := n.Service(0)
				send(t, n, a, row.b)
				time.Sleep(time.Second)
				begun, next := time.Now(), inc(t)
				send(t, n, a, next)
				assert.InDelta(t, 299, time.Since(begun).Seconds(), 0.1, "the POST waits")
				time.Sleep(2 * time.Second)
				assert.Equal(t, row.next, word(t, n, a, next))
				assert.Equal(t, "Pending", word(t, n, a, row.b))
				n.Restart(0)
				more := inc(t)
				send(t, n, a, more)
				time.Sleep(2 * time.Second)
				assert.Equal(t, "Committed", word(t, n, a, more))
			})
		})
	}
	for _, v := range []string{"0.5", "0.6", "1"} {
		served := tx(splintertest.Set("x", 1))
		served.FamilyVersion = v
		virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
			b := build(t, served)
			send(t, n, n.Service(0), b)
			time.Sleep(time.Second)
			assert.Equal(t, "Committed", word(t, n, n.Service(0), b), v)
		})
	}
}

// A stall is the node's: one request about the stalled service holds one of two workers,
// and every second connection to any circuit with it. What was given up there is executed
// when the stall ends, once, and in any order.
func TestStallIsTheNodes(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		sick, healthy := n.Service(0), n.Services()[2]
		send(t, n, sick, build(t, tx(splintertest.Trap("x"))))
		time.Sleep(time.Second)
		begun := time.Now()
		go word(t, n, sick, inc(t))
		time.Sleep(time.Second)
		var late, quick []batch.Batch
		for range 20 {
			b := inc(t)
			if leave(t, n, healthy, b) {
				quick = append(quick, b)
			} else {
				late = append(late, b)
			}
		}
		require.Len(t, late, 10)
		require.Len(t, quick, 10)
		for _, b := range late {
			assert.NotContains(t, n.Executions(healthy), b.ID)
		}
		peer := inc(t)
		send(t, n, n.Services()[3], peer) // the other node is well
		time.Sleep(time.Until(begun.Add(310 * time.Second)))
		order := n.Executions(healthy)
		var places []int
		for _, b := range late {
			require.Equal(t, []string{"Committed"}, words(n, b))
			places = append(places, slices.Index(order, b.ID))
		}
		assert.False(t, slices.IsSorted(places), "in another order than they were sent in")
		told := 0
		for _, e := range kinds(n, splintertest.Accepted) {
			if e.Word == "late" {
				told++
			}
		}
		assert.Equal(t, 10, told)
		assert.Len(t, n.Executions(healthy), 21)
	})
}

// Both workers held: nothing is answered, whatever it is about.
func TestStallOfAllWorkers(t *testing.T) {
	virtual(t, measured(1), func(t *testing.T, n *splintertest.Network) {
		sick, healthy := n.Service(0), n.Services()[2]
		send(t, n, sick, build(t, tx(splintertest.Trap("x"))))
		time.Sleep(time.Second)
		for range 2 {
			go call(t.Context(), n, sick, http.MethodGet, "/batch_statuses?ids=ab", nil)
		}
		time.Sleep(time.Second)
		b := inc(t)
		for range 4 {
			require.False(t, leave(t, n, healthy, b))
		}
		n.Restart(0) // what nobody took is gone with the node
		time.Sleep(time.Second)
		assert.Empty(t, n.Executions(healthy))
		send(t, n, healthy, b)
		time.Sleep(time.Second)
		assert.Len(t, n.Executions(healthy), 1)
	})
}

// A wait holds its worker for its whole time, also when the client has left.
func TestWaitHoldsAWorker(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		s := n.Service(0)
		begun := time.Now()
		r := call(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids=abc&wait=2", nil)
		require.Equal(t, 200, r.status)
		require.Equal(t, 2*time.Second, time.Since(begun))
		go call(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids=abc&wait=60", nil)
		time.Sleep(time.Second)
		hung := 0
		for range 4 {
			if !leave(t, n, s, inc(t)) {
				hung++
			}
		}
		assert.Equal(t, 2, hung)
		time.Sleep(time.Minute)

		x := inc(t)
		send(t, n, s, x)
		begun = time.Now()
		call(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(x.ID)+"&wait=60", nil)
		assert.Less(t, time.Since(begun), time.Second, "until it is committed")
	})
}

// A wait that ends in vain says what was in its beginning; what is final by then, it says.
func TestWaitSaysWhatWas(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		s, x := n.Service(0), inc(t)
		send(t, n, s, x)
		r := call(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(x.ID)+",abc&wait=1", nil)
		assert.Contains(t, r.body, "Committed")
		n.Kill(1)
		y := inc(t)
		send(t, n, s, y)
		r = call(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(y.ID)+"&wait=1", nil)
		assert.Contains(t, r.body, "Pending")
		assert.Equal(t, "Valid", word(t, n, s, y))
	})
}

// What a peer knows of what was posted there, and the coordinator of it.
func TestPostedAtAPeer(t *testing.T) {
	virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		good, bad := inc(t), build(t, tx(splintertest.Fail("x")))
		send(t, n, b, good)
		assert.Equal(t, "Pending", word(t, n, b, good))
		for range 2 {
			assert.Equal(t, "Unknown", word(t, n, a, good), "until it is executed")
			time.Sleep(310 * time.Millisecond) // it has arrived, and waits
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Committed", word(t, n, a, good))
		assert.Equal(t, "Committed", word(t, n, b, good))
		send(t, n, b, bad)
		time.Sleep(time.Minute)
		assert.Equal(t, "Invalid", word(t, n, a, bad))
		assert.Equal(t, "Pending", word(t, n, b, bad), "nobody tells it")
	})
}

// Version 2 takes 31 of 45 quick ones, and goes on below 15; through a peer the word to
// stop comes late; version 1 takes all, and forgets what it has yet to execute.
func TestFlood(t *testing.T) {
	flood := func(t *testing.T, n *splintertest.Network, s batch.ServiceID, count int) (took int) {
		t.Helper()
		for range count {
			r := call(t.Context(), n, s, http.MethodPost, "/batches", list(inc(t)))
			require.NotNil(t, r)
			if r.status == http.StatusAccepted {
				took++
				continue
			}
			require.Equal(t, response{status: http.StatusTooManyRequests}, *r)
		}
		return took
	}
	t.Run("v2", func(t *testing.T) {
		virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
			send(t, n, n.Service(0), inc(t))
			time.Sleep(100 * time.Millisecond) // it is being proposed
			assert.Equal(t, 30, flood(t, n, n.Service(0), 44))
			time.Sleep(4 * time.Second)
			assert.Zero(t, flood(t, n, n.Service(0), 1))
			time.Sleep(7 * time.Second)
			assert.Less(t, n.QueueLen(n.Service(0)), 15)
			assert.Equal(t, 1, flood(t, n, n.Service(0), 1))
		})
	})
	t.Run("v2 peer", func(t *testing.T) {
		virtual(t, measured(2), func(t *testing.T, n *splintertest.Network) {
			assert.Equal(t, 60, flood(t, n, n.Service(1), 60))
			time.Sleep(time.Second)
			assert.Zero(t, flood(t, n, n.Service(1), 1))
		})
	})
	t.Run("v1", func(t *testing.T) {
		virtual(t, measured(1), func(t *testing.T, n *splintertest.Network) {
			s, first := n.Service(0), inc(t)
			send(t, n, s, first)
			assert.Equal(t, 110, flood(t, n, s, 110))
			second := inc(t)
			send(t, n, s, second)
			assert.Equal(t, "Unknown", word(t, n, s, first), "evicted before it was executed")
			time.Sleep(100 * time.Millisecond)
			assert.Equal(t, "Valid", word(t, n, s, first), "and known again, as a new one")
			time.Sleep(2 * time.Minute)
			assert.Equal(t, "Committed", word(t, n, s, second))
			assert.Len(t, n.Executions(s), 112)
			assert.Equal(t, "Unknown", word(t, n, s, first))
		})
	})
}

// Crashes by seed: the journal's truth is that of the states, and the same seed gives the
// same faults.
func TestCrashesBySeed(t *testing.T) {
	points := func(seed uint64) (out []string) {
		o := splintertest.Real()
		for i := range 12 {
			o.Circuits = append(o.Circuits, splintertest.Circuit{ID: fmt.Sprintf("aaaaa-b%04d", i), Version: 1 + i%2})
		}
		o.Faults = &splintertest.Faults{Seed: seed, Crash: 0.2, Down: time.Second}
		var bs []batch.Batch
		for i := range 48 { // whose ids are the same each time
			payload, address := splintertest.Inc("x", 1)
			bs = append(bs, build(t, sawtooth.Transaction{
				FamilyName: splintertest.Family, FamilyVersion: "1", Payload: payload, Inputs: []string{address},
				Outputs: []string{address}, Nonce: fmt.Sprint("seeded ", i),
			}))
		}
		virtual(t, o, func(t *testing.T, n *splintertest.Network) {
			services := n.Services()
			for i, b := range bs {
				s := services[2*(i%12)]
				for r := (*response)(nil); r == nil || r.status != http.StatusAccepted; {
					time.Sleep(time.Second)
					r = call(t.Context(), n, s, http.MethodPost, "/batches", list(b))
				}
			}
			time.Sleep(10 * time.Minute)
			for i := 0; i < len(services); i += 2 {
				a, b := services[i], services[i+1]
				_, divided := n.Divided(a)
				assert.Equal(t, !maps.Equal(n.State(a), n.State(b)), divided, "%s", a)
				assert.Equal(t, divided, !slices.Equal(n.Applied(a), n.Applied(b)))
				assert.GreaterOrEqual(t, len(n.Applied(a)), len(n.Transactions(a)), "an effect without a receipt")
				assert.EqualValues(t, len(n.Applied(a)), n.State(a)["x"])
				out = append(out, fmt.Sprint(divided, len(n.Transactions(a)), len(n.Transactions(b)), n.State(a), n.State(b)))
				require.NoError(t, n.Check(map[batch.ServiceID][]batch.ID{a: nil}))
			}
			out = append(out, fmt.Sprint(len(kinds(n, splintertest.Killed))))
			t.Logf("seed %d: %v", seed, out)
			assert.NotEmpty(t, kinds(n, splintertest.Divided))
		})
		return out
	}
	one := points(1)
	assert.Equal(t, one, points(1))
	assert.NotEqual(t, one, points(2))
}

// Two services of one circuit on one node share a table of receipts: the peer fails at
// those of the coordinator, and goes on waiting.
func TestTwoServicesOnOneNode(t *testing.T) {
	o := splintertest.Real()
	o.Addrs = []string{"one"}
	o.Circuits = []splintertest.Circuit{{ID: "aaaaa-bbbbb"}}
	virtual(t, o, func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		x, y := inc(t), inc(t)
		send(t, n, a, x)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Committed", word(t, n, a, x))
		assert.Equal(t, "Valid", word(t, n, b, x), "its effect is there, and no receipt")
		assert.Len(t, n.Transactions(a), 1)
		assert.Empty(t, n.Transactions(b))
		assert.Equal(t, root(t, n, a), root(t, n, b))
		send(t, n, a, y)
		time.Sleep(32 * time.Second)
		assert.Equal(t, "Valid", word(t, n, a, y))
		assert.Equal(t, []string{"Rejected"}, words(n, y))
	})
}
