package sawtoothtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// runInBubble runs f with a node without a socket, with Sawtooth's own times: a block each second,
// and PENDING 100 ms after the 202.
func runInBubble(t *testing.T, o Options, f func(t *testing.T, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.InMemory = true
		if o.BlockInterval == 0 {
			o.BlockInterval = time.Second
		}
		f(t, Start(t, &o))
	})
}

// requireStatus requires a status, asked for over HTTP, so that the query also renews what a query
// renews.
func requireStatus(t testing.TB, n *Node, b *pb.Batch, want string) {
	t.Helper()
	r := askWait(t, n, b, "")
	require.NotNil(t, r.json["data"], r.body)
	require.Equal(t, want, r.json["data"].([]any)[0].(map[string]any)["status"])
}

// A batch is UNKNOWN after the 202, then PENDING, and COMMITTED after the next block
// (docs/ledgers/sawtooth.md#statuses).
func TestABatchIsUnknownAndThenPending(t *testing.T) {
	runInBubble(t, Options{PublishDelay: 100 * time.Millisecond}, func(t *testing.T, n *Node) {
		time.Sleep(50 * time.Millisecond)
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		requireStatus(t, n, b, Unknown)
		submitInBubble(t, n, b)
		requireStatus(t, n, b, Unknown)
		time.Sleep(99 * time.Millisecond)
		requireStatus(t, n, b, Unknown)
		time.Sleep(time.Millisecond)
		requireStatus(t, n, b, Pending)
		time.Sleep(849 * time.Millisecond)
		requireStatus(t, n, b, Pending)
		time.Sleep(time.Millisecond)
		requireStatus(t, n, b, Committed)
	})
}

// A fault that keeps a batch UNKNOWN for longer delays all batches behind it, because the
// publisher is one thread (docs/ledgers/sawtooth.md#statuses).
func TestPublisherKeepsOrder(t *testing.T) {
	var slow batch.ID
	f := &Faults{Batch: func(id batch.ID, _ int) BatchFault {
		if id == slow {
			return BatchFault{PublishDelay: 5 * time.Second}
		}
		return BatchFault{}
	}}
	runInBubble(t, Options{Faults: f}, func(t *testing.T, n *Node) {
		a, b := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 2)))
		slow = batchID(a)
		submitInBubble(t, n, a)
		submitInBubble(t, n, b)
		time.Sleep(4999 * time.Millisecond)
		requireStatus(t, n, a, Unknown)
		requireStatus(t, n, b, Unknown)
		time.Sleep(2 * time.Second)
		require.Equal(t, []batch.ID{batchID(a), batchID(b)}, n.Chain())
		last := time.Time{}
		for _, e := range n.Journal() {
			require.False(t, e.Time.Before(last), "the journal goes back in time at %+v", e)
			last = e.Time
		}
	})
}

// Each query about an INVALID batch renews the memory of it. It is forgotten only when another
// batch becomes invalid long enough afterwards (docs/ledgers/sawtooth.md#statuses).
func TestInvalidIsForgottenLate(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		bad := func() *pb.Batch { return makeBatch(t, intkeyTx(Inc("unset", 1))) }
		fail := func() *pb.Batch {
			b := bad()
			submitInBubble(t, n, b)
			time.Sleep(3 * time.Second)
			require.Equal(t, Invalid, n.Status(batchID(b)))
			return b
		}
		asked, alone := fail(), fail()
		time.Sleep(599 * time.Second)
		requireStatus(t, n, asked, Invalid) // this query renews the memory
		time.Sleep(300 * time.Second)
		assert.Equal(t, Invalid, n.Status(batchID(alone)), "nothing was inserted since")
		fail()
		assert.Equal(t, Unknown, n.Status(batchID(alone)), "now it was")
		requireStatus(t, n, asked, Invalid)
	})
}

// An INVALID batch may still be committed, and its status may list the same transaction twice
// (docs/ledgers/sawtooth.md#statuses).
func TestInvalidMayStillCommit(t *testing.T) {
	var first batch.ID
	f := &Faults{Batch: func(id batch.ID, _ int) BatchFault { return BatchFault{Reexecute: id == first} }}
	runInBubble(t, Options{Faults: f}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Inc("x", 1)))
		first = batchID(b)
		submitInBubble(t, n, b)
		time.Sleep(2500 * time.Millisecond)
		requireStatus(t, n, b, Invalid)
		invalid := askWait(t, n, b, "").json["data"].([]any)[0].(map[string]any)["invalid_transactions"].([]any)
		require.Len(t, invalid, 2)
		assert.Equal(t, invalid[0], invalid[1])
		submitInBubble(t, n, makeBatch(t, intkeyTx(Set("x", 1))))
		time.Sleep(2 * time.Second)
		requireStatus(t, n, b, Committed)
		value, _ := n.Value("x")
		assert.Equal(t, int64(2), value)
	})
}

func TestFalseInvalid(t *testing.T) {
	f := &Faults{FalseInvalid: 1}
	runInBubble(t, Options{Faults: f, ReexecuteAfter: 10 * time.Second}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(10 * time.Second)
		requireStatus(t, n, b, Invalid)
		time.Sleep(2 * time.Second)
		requireStatus(t, n, b, Committed)
		require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {batchID(b)}}}))
	})
}

// An identical POST has the effects in the table of docs/ledgers/sawtooth.md#the-same-bytes-again.
func TestSameBytesAgain(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		submitInBubble(t, n, b, b) // accepted recently
		time.Sleep(3 * time.Second)
		requireStatus(t, n, b, Committed)
		submitInBubble(t, n, b) // committed and remembered
		time.Sleep(1201 * time.Second)
		submitInBubble(t, n, b) // committed, and forgotten by the completer
		time.Sleep(3 * time.Second)
		requireStatus(t, n, b, Committed)
		assert.Len(t, n.History("x"), 1)
		assert.Equal(t, 2, countEntries(n, Accepted, b))
		assert.Equal(t, 4, countEntries(n, Ignored, b))
		assert.Equal(t, 1, countEntries(n, Published, b))
	})
}

// An INVALID batch is ignored for 1200 s after its last POST, and each POST renews that time.
// Until it is executed again, it stays INVALID (docs/ledgers/sawtooth.md#the-same-bytes-again).
func TestInvalidBytesAgain(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Inc("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(3 * time.Second)
		requireStatus(t, n, b, Invalid)
		submitInBubble(t, n, makeBatch(t, intkeyTx(Set("x", 1))))
		for range 8 {
			time.Sleep(15 * time.Minute)
			submitInBubble(t, n, b)
			requireStatus(t, n, b, Invalid)
		}
		require.Equal(t, 1+2, countEntries(n, Executed, b), "eight tries in two hours never reached the publisher; the next block executed it twice more")
		time.Sleep(1200 * time.Second)
		submitInBubble(t, n, b)
		time.Sleep(500 * time.Millisecond)
		requireStatus(t, n, b, Invalid) // the batch is pending, and INVALID comes before PENDING
		time.Sleep(3 * time.Second)
		requireStatus(t, n, b, Committed)
		require.Equal(t, 1+2+1, countEntries(n, Executed, b))
	})
}

// With LazyPurge the cache forgets entries only while another one is added.
func TestLazyPurge(t *testing.T) {
	runInBubble(t, Options{LazyPurge: true}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Inc("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(2000 * time.Second)
		submitInBubble(t, n, b)
		require.Equal(t, 1, countEntries(n, Accepted, b))
		time.Sleep(2000 * time.Second)
		submitInBubble(t, n, makeBatch(t, intkeyTx(Set("x", 1))))
		submitInBubble(t, n, b)
		require.Equal(t, 2, countEntries(n, Accepted, b))
	})
}

// A restart forgets the batches that were not committed, and the node accepts them again (the last
// row of docs/ledgers/sawtooth.md#the-same-bytes-again).
func TestRestartForgetsBatches(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		done, bad, pending, parked := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Inc("unset", 1))), makeBatch(t, intkeyTx(Inc("x", 2))),
			makeBatch(t, intkeyTx(Inc("x", 3)).withHeader(func(h *pb.TransactionHeader) { h.Dependencies = []string{"nobody"} }))
		submitInBubble(t, n, done, bad)
		time.Sleep(2 * time.Second)
		submitInBubble(t, n, pending, parked)
		time.Sleep(500 * time.Millisecond)
		requireStatus(t, n, pending, Pending)
		n.Restart()
		requireStatus(t, n, done, Committed)
		requireStatus(t, n, bad, Unknown)
		requireStatus(t, n, pending, Unknown)
		assert.Zero(t, n.PoolLen())
		time.Sleep(5 * time.Second)
		requireStatus(t, n, pending, Unknown)
		submitInBubble(t, n, pending)
		time.Sleep(2 * time.Second)
		requireStatus(t, n, pending, Committed)
		value, _ := n.Value("x")
		assert.Equal(t, int64(3), value)
		require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {batchID(done), batchID(pending)}}}))
	})
}

// Batches that do not conflict may overtake each other. Batches that conflict, or depend on each
// other, never do (docs/ledgers/sawtooth.md#order).
func TestOvertaking(t *testing.T) {
	runInBubble(t, Options{Faults: &Faults{Seed: 3, Overtake: .9}}, func(t *testing.T, n *Node) {
		lanes := []string{"x", "y", "z"}
		want := map[string][]batch.ID{}
		of := map[batch.ID]string{}
		var list []*pb.Batch
		var sent []batch.ID
		for i := range 30 {
			name := lanes[i%len(lanes)]
			b := makeBatch(t, intkeyTx(Set(name, int64(i))))
			list, sent = append(list, b), append(sent, batchID(b))
			want[name], of[batchID(b)] = append(want[name], batchID(b)), name
		}
		last := makeBatch(t, intkeyTx(Set("free", 1)).withHeader(dependsOn(txID(list[29], 0))))
		list = append(list, last)
		want["free"], of[batchID(last)] = []batch.ID{batchID(last)}, "free"
		submitInBubble(t, n, list...)
		time.Sleep(2 * time.Second)
		require.NoError(t, n.Check(Expectation{Lane: func(id batch.ID) string { return of[id] }, Order: want}))
		require.NotEqual(t, append(sent, batchID(last)), n.Chain())
	})
}

// The order inside a list, and that of POSTs each of which waited for the one before, is kept,
// even if blocks have a limited size (docs/ledgers/sawtooth.md#order).
func TestOrderIsKept(t *testing.T) {
	runInBubble(t, Options{MaxBatchesPerBlock: 2}, func(t *testing.T, n *Node) {
		var want []batch.ID
		var list []*pb.Batch
		for range 7 {
			b := makeBatch(t, intkeyTx(Set("x", 1)))
			list, want = append(list, b), append(want, batchID(b))
		}
		submitInBubble(t, n, list[:4]...)
		for _, b := range list[4:] {
			submitInBubble(t, n, b)
		}
		time.Sleep(3 * time.Second)
		assert.Len(t, n.Chain(), 6)
		time.Sleep(time.Second)
		require.Equal(t, want, n.Chain())
	})
}
