package splintertest_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// Poison of every kind stalls the service for 300 s and stays Pending, and the next batch is
// committed. If the contract is no program, no later batch is executed, and each of them stalls
// the service again.
func TestPoisonKinds(t *testing.T) {
	family, version := newTransaction(splintertest.Set("x", 1)), newTransaction(splintertest.Set("x", 1))
	family.FamilyName, version.FamilyVersion = "nobody", "9.9"
	for name, row := range map[string]struct {
		b        batch.Batch
		nextWord string
	}{
		"family": {buildBatch(t, family), "Committed"}, "version": {buildBatch(t, version), "Committed"},
		"trap": {buildBatch(t, newTransaction(splintertest.Trap("x"))), "Committed"}, "no wasm": {buildBatch(t, newTransaction(splintertest.NoWasm("x"))), "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
				a := n.Service(0)
				postInProcess(t, n, a, row.b)
				time.Sleep(time.Second)
				begun, nextWord := time.Now(), incBatch(t)
				postInProcess(t, n, a, nextWord)
				assert.InDelta(t, 299, time.Since(begun).Seconds(), 0.1, "the POST waits")
				time.Sleep(2 * time.Second)
				begun = time.Now()
				assert.Equal(t, row.nextWord, statusWord(t, n, a, nextWord))
				assert.Equal(t, row.nextWord == "Pending", time.Since(begun) > 290*time.Second, "a stall")
				assert.Equal(t, "Pending", statusWord(t, n, a, row.b))
				n.Restart(0)
				more := incBatch(t)
				postInProcess(t, n, a, more)
				time.Sleep(2 * time.Second)
				assert.Equal(t, "Committed", statusWord(t, n, a, more))
			})
		})
	}
	for _, v := range []string{"0.5", "0.6", "1"} {
		served := newTransaction(splintertest.Set("x", 1))
		served.FamilyVersion = v
		runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
			b := buildBatch(t, served)
			postInProcess(t, n, n.Service(0), b)
			time.Sleep(time.Second)
			assert.Equal(t, "Committed", statusWord(t, n, n.Service(0), b), v)
		})
	}
}

// A stall affects the node: one request about the stalled service blocks one of two workers, and
// with it every second connection to any circuit. POSTs on these connections whose clients have
// left are executed when the stall ends, once each, in any order.
func TestStallIsTheNodes(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		sick, healthy := n.Service(0), n.Services()[2]
		postInProcess(t, n, sick, buildBatch(t, newTransaction(splintertest.Trap("x"))))
		time.Sleep(time.Second)
		begun := time.Now()
		go statusWord(t, n, sick, incBatch(t))
		time.Sleep(time.Second)
		var late, quick []batch.Batch
		for range 20 {
			b := incBatch(t)
			if postAndLeave(t, n, healthy, b) {
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
		peer := incBatch(t)
		postInProcess(t, n, n.Services()[3], peer) // the other node works
		time.Sleep(time.Until(begun.Add(310 * time.Second)))
		order := n.Executions(healthy)
		var places []int
		for _, b := range late {
			require.Equal(t, []string{"Committed"}, answeredWords(n, b))
			places = append(places, slices.Index(order, b.ID))
		}
		assert.False(t, slices.IsSorted(places), "in another order than they were sent in")
		told := 0
		for _, e := range entriesOfKind(n, splintertest.Accepted) {
			if e.Word == "late" {
				told++
			}
		}
		assert.Equal(t, 10, told)
		assert.Len(t, n.Executions(healthy), 21)
	})
}

// When both workers are blocked, no request gets an answer.
func TestStallOfAllWorkers(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(1), func(t *testing.T, n *splintertest.Network) {
		sick, healthy := n.Service(0), n.Services()[2]
		postInProcess(t, n, sick, buildBatch(t, newTransaction(splintertest.Trap("x"))))
		time.Sleep(time.Second)
		for range 2 {
			go sendInProcess(t.Context(), n, sick, http.MethodGet, "/batch_statuses?ids=ab", nil)
		}
		time.Sleep(time.Second)
		b := incBatch(t)
		for range 4 {
			require.False(t, postAndLeave(t, n, healthy, b))
		}
		n.Restart(0) // a request that no worker has read is lost with the node
		time.Sleep(time.Second)
		assert.Empty(t, n.Executions(healthy))
		postInProcess(t, n, healthy, b)
		time.Sleep(time.Second)
		assert.Len(t, n.Executions(healthy), 1)
	})
}

// A wait occupies its worker for its whole time, even if the client has left.
func TestWaitHoldsAWorker(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		s := n.Service(0)
		begun := time.Now()
		r := sendInProcess(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids=abc&wait=2", nil)
		require.Equal(t, 200, r.status)
		require.Equal(t, 2*time.Second, time.Since(begun))
		go sendInProcess(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids=abc&wait=60", nil)
		time.Sleep(time.Second)
		hung := 0
		for range 4 {
			if !postAndLeave(t, n, s, incBatch(t)) {
				hung++
			}
		}
		assert.Equal(t, 2, hung)
		time.Sleep(time.Minute)

		x := incBatch(t)
		postInProcess(t, n, s, x)
		begun = time.Now()
		sendInProcess(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(x.ID)+"&wait=60", nil)
		assert.Less(t, time.Since(begun), time.Second, "until it is committed")
	})
}

// A wait that times out answers with the statuses from its beginning, except of batches that are
// final by then.
func TestWaitSaysWhatWas(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		s, x := n.Service(0), incBatch(t)
		postInProcess(t, n, s, x)
		r := sendInProcess(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(x.ID)+",abc&wait=1", nil)
		assert.Contains(t, r.body, "Committed")
		n.Kill(1)
		y := incBatch(t)
		postInProcess(t, n, s, y)
		r = sendInProcess(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(y.ID)+"&wait=1", nil)
		assert.Contains(t, r.body, "Pending")
		assert.Equal(t, "Valid", statusWord(t, n, s, y))
	})
}

// A batch that is posted to a peer is known to the peer at once, and to the coordinator when it is
// executed.
func TestPostedAtAPeer(t *testing.T) {
	runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
		a, b := n.Service(0), n.Service(1)
		good, bad := incBatch(t), buildBatch(t, newTransaction(splintertest.Invalid("x")))
		postInProcess(t, n, b, good)
		assert.Equal(t, "Pending", statusWord(t, n, b, good))
		for range 2 {
			assert.Equal(t, "Unknown", statusWord(t, n, a, good), "until it is executed")
			time.Sleep(310 * time.Millisecond) // the batch has arrived at the coordinator, and waits there
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, "Committed", statusWord(t, n, a, good))
		assert.Equal(t, "Committed", statusWord(t, n, b, good))
		postInProcess(t, n, b, bad)
		time.Sleep(time.Minute)
		assert.Equal(t, "Invalid", statusWord(t, n, a, bad))
		assert.Equal(t, "Pending", statusWord(t, n, b, bad), "nobody tells it")
	})
}

// Through a peer, the message to refuse batches comes late. Version 1 accepts all batches, and
// forgets those that wait to be executed. 05-flood.txt shows what version 2 does itself.
func TestFlood(t *testing.T) {
	tier.Plain(t)
	flood := func(t *testing.T, n *splintertest.Network, s batch.ServiceID, count int) (took int) {
		t.Helper()
		for range count {
			r := sendInProcess(t.Context(), n, s, http.MethodPost, "/batches", batchList(incBatch(t)))
			require.NotNil(t, r)
			if r.status == http.StatusAccepted {
				took++
				continue
			}
			require.Equal(t, response{status: http.StatusTooManyRequests}, *r)
		}
		return took
	}
	t.Run("v2 peer", func(t *testing.T) {
		runInVirtualTime(t, optionsOfRealNodes(2), func(t *testing.T, n *splintertest.Network) {
			assert.Equal(t, 60, flood(t, n, n.Service(1), 60))
			time.Sleep(time.Second)
			assert.Zero(t, flood(t, n, n.Service(1), 1))
		})
	})
	t.Run("v1", func(t *testing.T) {
		runInVirtualTime(t, optionsOfRealNodes(1), func(t *testing.T, n *splintertest.Network) {
			s, first := n.Service(0), incBatch(t)
			postInProcess(t, n, s, first)
			assert.Equal(t, 110, flood(t, n, s, 110))
			second := incBatch(t)
			postInProcess(t, n, s, second)
			assert.Equal(t, "Unknown", statusWord(t, n, s, first), "evicted before it was executed")
			time.Sleep(100 * time.Millisecond)
			assert.Equal(t, "Valid", statusWord(t, n, s, first), "and known again, as a new one")
			time.Sleep(2 * time.Minute)
			assert.Equal(t, "Committed", statusWord(t, n, s, second))
			assert.Len(t, n.Executions(s), 112)
			assert.Equal(t, "Unknown", statusWord(t, n, s, first))
		})
	})
}
