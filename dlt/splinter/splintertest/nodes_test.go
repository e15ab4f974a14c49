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
	"github.com/dltbatch/dltbatch/internal/tier"
)

// A second execution that changes the state divides the circuit for good: it stalls for 30 s, and
// from then on every batch is rolled back, even after restarts.
func TestSecondExecutionDivides(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		one := incBatch(t)
		postInProcess(t, n, a, one)
		time.Sleep(2 * time.Second)
		require.Equal(t, "Committed", statusWord(t, n, a, one))
		require.Equal(t, stateRoot(t, n, a), stateRoot(t, n, b))
		begun := time.Now()
		postInProcess(t, n, a, one)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Valid", statusWord(t, n, a, one))
		assert.NotEqual(t, stateRoot(t, n, a), stateRoot(t, n, b))
		later := []batch.Batch{incBatch(t), buildBatch(t, newTransaction(splintertest.Set("other", 1)))}
		for _, x := range later {
			postInProcess(t, n, a, x)
			time.Sleep(6 * time.Second)
			assert.Equal(t, "Pending", statusWord(t, n, a, x), "the coordinator waits for its peers")
		}
		time.Sleep(time.Until(begun.Add(32 * time.Second)))
		for _, x := range later {
			assert.Equal(t, "Valid", statusWord(t, n, a, x))
		}
		for i := range 2 {
			n.Restart(i)
			more := incBatch(t)
			postInProcess(t, n, a, more)
			time.Sleep(40 * time.Second)
			assert.Equal(t, "Valid", statusWord(t, n, a, more), "for ever")
			assert.Equal(t, []string{"Rejected"}, answeredWords(n, more))
		}
		since, divided := n.Divided(b)
		assert.True(t, divided)
		assert.WithinDuration(t, begun, since, time.Second)
		assert.Equal(t, []batch.ID{one.ID, one.ID}, n.Applied(a))
		assert.Equal(t, []batch.ID{one.ID}, n.Applied(b))
		assert.Equal(t, []string{"Committed", "Again"}, answeredWords(n, one))
		assert.Len(t, entriesOfKind(n, splintertest.Divided), 1)
		require.Error(t, n.Check(map[batch.ServiceID][]batch.ID{a: {one.ID}}))

		other := n.Services()[2] // the nodes serve other circuits normally
		fine := incBatch(t)
		postInProcess(t, n, other, fine)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Committed", statusWord(t, n, other, fine))
	})
}

// A crash at each moment of two-phase commit leaves these effects and receipts.
func TestCrashes(t *testing.T) {
	for name, row := range map[string]struct {
		point       splintertest.CrashPoint
		isDivided   bool
		receipts    [2]int // the receipts of x at each service
		effects     [2]int
		nextWord    string // the status of a batch that is sent right after the restart
		wordOfLater string // the status of a batch that is sent 40 s later
	}{
		"proposed":    {splintertest.CrashAfterProposal, false, [2]int{0, 0}, [2]int{0, 0}, "Valid", "Committed"},
		"state":       {splintertest.CrashAfterState, true, [2]int{0, 0}, [2]int{1, 0}, "Valid", "Valid"},
		"committed":   {splintertest.CrashAfterCommit, true, [2]int{1, 0}, [2]int{1, 0}, "Valid", "Valid"},
		"peer":        {splintertest.CrashPeerBeforeCommit, true, [2]int{1, 0}, [2]int{1, 0}, "Valid", "Valid"},
		"peer, state": {splintertest.CrashPeerAfterState, false, [2]int{1, 0}, [2]int{1, 1}, "Committed", "Committed"},
	} {
		for _, down := range []time.Duration{0, 1500 * time.Millisecond} {
			for _, version := range []int{1, 2} {
				t.Run(fmt.Sprint(name, " ", down, " v", version), func(t *testing.T) {
					o := optionsOfRealNodes(version)
					x, nextWord, wordOfLater := incBatch(t), incBatch(t), incBatch(t)
					o.Faults = &splintertest.Faults{DownTime: down, Batch: func(id batch.ID, _ int) (f splintertest.BatchFault) {
						if id == x.ID {
							f.Crash = row.point
						}
						return f
					}}
					runInVirtualTime(t, o, func(t *testing.T, n *splintertest.Network) {
						a, b := n.Service(0), n.Service(1)
						postInProcess(t, n, a, x)
						time.Sleep(3 * time.Second)
						for i, s := range []batch.ServiceID{a, b} {
							assert.Len(t, n.Transactions(s), row.receipts[i], "receipts at %s", s)
							assert.Len(t, n.Applied(s), row.effects[i], "effects at %s", s)
						}
						_, isDivided := n.Divided(a)
						assert.Equal(t, row.isDivided, isDivided)
						assert.Len(t, entriesOfKind(n, splintertest.Restarted), 2, "both circuits of the node")
						begun := time.Now()
						postInProcess(t, n, a, nextWord)
						time.Sleep(44 * time.Second)
						assert.Equal(t, row.nextWord, statusWord(t, n, a, nextWord))
						postInProcess(t, n, a, wordOfLater)
						time.Sleep(2 * time.Second)
						assert.Equal(t, row.wordOfLater, statusWord(t, n, a, wordOfLater))
						if i := slices.IndexFunc(n.Journal(), func(e splintertest.Entry) bool {
							return e.Kind == splintertest.Executed && e.Batches[0] == nextWord.ID && e.Word == "Rejected"
						}); i >= 0 && row.point != splintertest.CrashPeerBeforeCommit {
							assert.GreaterOrEqual(t, n.Journal()[i].Time.Sub(begun), 30*time.Second, "the peer waits for the first one's end")
						}
					})
				})
			}
		}
	}
}

// A node is killed half a second after a POST: the coordinator's queue and history are lost, its
// peer goes on waiting, and so the next batch is rolled back (14-half.txt).
func TestKillWithAProposalOpen(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		old, x, queued := incBatch(t), incBatch(t), incBatch(t)
		postInProcess(t, n, a, old)
		time.Sleep(2 * time.Second)
		postInProcess(t, n, a, x)
		postInProcess(t, n, a, queued)
		time.Sleep(400 * time.Millisecond)
		n.Kill(0)
		assert.Equal(t, "Valid", statusWord(t, n, b, x))
		time.Sleep(time.Second)
		require.NoError(t, n.Start(0))
		for _, b := range []batch.Batch{old, x, queued} {
			assert.Equal(t, "Unknown", statusWord(t, n, a, b), "memory is gone")
		}
		assert.Equal(t, []batch.ID{old.ID}, n.Executions(a), "what was committed stays")
		assert.Len(t, n.Transactions(a), 1, "and its receipts")
	})
}

// While a node is down, the circuits of its services stall, and their proposals are rolled back.
func TestPeerDown(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		a := n.Service(0)
		n.Kill(1)
		x, y := incBatch(t), incBatch(t)
		postInProcess(t, n, a, x)
		postInProcess(t, n, a, y)
		time.Sleep(29 * time.Second)
		assert.Equal(t, "Pending", statusWord(t, n, a, y))
		require.NoError(t, n.Start(1))
		time.Sleep(3 * time.Second)
		assert.Equal(t, "Valid", statusWord(t, n, a, x))
		assert.Equal(t, []string{"Rejected"}, answeredWords(n, x))
		assert.Equal(t, "Committed", statusWord(t, n, a, y))
	})
}

// Crashes by seed: the journal agrees with the states, and the same seed gives the same faults.
func TestCrashesBySeed(t *testing.T) {
	tier.Plain(t)
	points := func(seed uint64) (out []string) {
		o := splintertest.RealTimes()
		for i := range 12 {
			o.Circuits = append(o.Circuits, splintertest.Circuit{ID: fmt.Sprintf("aaaaa-b%04d", i), Version: 1 + i%2})
		}
		o.Faults = &splintertest.Faults{Seed: seed, Crash: 0.2, DownTime: time.Second}
		var batches []batch.Batch
		for i := range 48 { // the ids are the same each time
			payload, address := splintertest.Inc("x", 1)
			batches = append(batches, buildBatch(t, sawtooth.Transaction{
				FamilyName: splintertest.Family, FamilyVersion: "1", Payload: payload, Inputs: []string{address},
				Outputs: []string{address}, Nonce: fmt.Sprint("seeded ", i),
			}))
		}
		runInVirtualTime(t, o, func(t *testing.T, n *splintertest.Network) {
			services := n.Services()
			for i, b := range batches {
				s := services[2*(i%12)]
				for r := (*response)(nil); r == nil || r.status != http.StatusAccepted; {
					time.Sleep(time.Second)
					r = sendInProcess(t.Context(), n, s, http.MethodPost, "/batches", batchList(b))
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
			out = append(out, fmt.Sprint(len(entriesOfKind(n, splintertest.Killed))))
			t.Logf("seed %d: %v", seed, out)
			assert.NotEmpty(t, entriesOfKind(n, splintertest.Divided))
		})
		return out
	}
	one := points(1)
	assert.Equal(t, one, points(1))
	assert.NotEqual(t, one, points(2))
}

// Two services of one circuit on one node share a table of receipts: the peer fails at the
// coordinator's receipts, and goes on waiting.
func TestTwoServicesOnOneNode(t *testing.T) {
	o := splintertest.RealTimes()
	o.Addrs = []string{"one"}
	o.Circuits = []splintertest.Circuit{{ID: "aaaaa-bbbbb"}}
	runInVirtualTime(t, o, func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		x, y := incBatch(t), incBatch(t)
		postInProcess(t, n, a, x)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Committed", statusWord(t, n, a, x))
		assert.Equal(t, "Valid", statusWord(t, n, b, x), "its effect is there, and no receipt")
		assert.Len(t, n.Transactions(a), 1)
		assert.Empty(t, n.Transactions(b))
		assert.Equal(t, stateRoot(t, n, a), stateRoot(t, n, b))
		postInProcess(t, n, a, y)
		time.Sleep(32 * time.Second)
		assert.Equal(t, "Valid", statusWord(t, n, a, y))
		assert.Equal(t, []string{"Rejected"}, answeredWords(n, y))
	})
}
