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

// inBubble runs f with a node without a socket, with Sawtooth's own times: a block each second,
// and PENDING 100 ms after the 202.
func inBubble(t *testing.T, o Options, f func(t *testing.T, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.InMemory = true
		if o.BlockInterval == 0 {
			o.BlockInterval = time.Second
		}
		f(t, Start(t, &o))
	})
}

// is requires a status, asked for over HTTP, so that the query also renews what a query renews.
func is(t testing.TB, n *Node, b *pb.Batch, want string) {
	t.Helper()
	r := askWait(t, n, b, "")
	require.NotNil(t, r.json["data"], r.body)
	require.Equal(t, want, r.json["data"].([]any)[0].(map[string]any)["status"])
}

// A batch is UNKNOWN after the 202, then PENDING, and COMMITTED after the next block
// (docs/ledgers/sawtooth.md#statuses).
func TestB5UnknownWindow(t *testing.T) {
	inBubble(t, Options{PublishDelay: 100 * time.Millisecond}, func(t *testing.T, n *Node) {
		time.Sleep(50 * time.Millisecond)
		b := mk(t, call(Set("x", 1)))
		is(t, n, b, Unknown)
		bubbleSubmit(t, n, b)
		is(t, n, b, Unknown)
		time.Sleep(99 * time.Millisecond)
		is(t, n, b, Unknown)
		time.Sleep(time.Millisecond)
		is(t, n, b, Pending)
		time.Sleep(849 * time.Millisecond)
		is(t, n, b, Pending)
		time.Sleep(time.Millisecond)
		is(t, n, b, Committed)
	})
}

// A fault that keeps a batch UNKNOWN for longer delays all batches behind it, because the
// publisher is one thread (docs/ledgers/sawtooth.md#statuses).
func TestB5PublisherKeepsOrder(t *testing.T) {
	var slow batch.ID
	f := &Faults{Batch: func(id batch.ID, _ int) BatchFault {
		if id == slow {
			return BatchFault{PublishDelay: 5 * time.Second}
		}
		return BatchFault{}
	}}
	inBubble(t, Options{Faults: f}, func(t *testing.T, n *Node) {
		a, b := mk(t, call(Set("x", 1))), mk(t, call(Set("x", 2)))
		slow = id(a)
		bubbleSubmit(t, n, a)
		bubbleSubmit(t, n, b)
		time.Sleep(4999 * time.Millisecond)
		is(t, n, a, Unknown)
		is(t, n, b, Unknown)
		time.Sleep(2 * time.Second)
		require.Equal(t, []batch.ID{id(a), id(b)}, n.Chain())
		last := time.Time{}
		for _, e := range n.Journal() {
			require.False(t, e.Time.Before(last), "the journal goes back in time at %+v", e)
			last = e.Time
		}
	})
}

// Each query about an INVALID batch renews the memory of it. It is forgotten only when another
// batch becomes invalid long enough afterwards (docs/ledgers/sawtooth.md#statuses).
func TestB5InvalidIsForgottenLate(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		bad := func() *pb.Batch { return mk(t, call(Inc("unset", 1))) }
		fail := func() *pb.Batch {
			b := bad()
			bubbleSubmit(t, n, b)
			time.Sleep(3 * time.Second)
			require.Equal(t, Invalid, n.Status(id(b)))
			return b
		}
		asked, alone := fail(), fail()
		time.Sleep(599 * time.Second)
		is(t, n, asked, Invalid) // this query renews the memory
		time.Sleep(300 * time.Second)
		assert.Equal(t, Invalid, n.Status(id(alone)), "nothing was inserted since")
		fail()
		assert.Equal(t, Unknown, n.Status(id(alone)), "now it was")
		is(t, n, asked, Invalid)
	})
}

// An INVALID batch may still be committed, and its status may list the same transaction twice
// (docs/ledgers/sawtooth.md#statuses).
func TestB5InvalidMayStillCommit(t *testing.T) {
	var first batch.ID
	f := &Faults{Batch: func(id batch.ID, _ int) BatchFault { return BatchFault{Reexecute: id == first} }}
	inBubble(t, Options{Faults: f}, func(t *testing.T, n *Node) {
		b := mk(t, call(Inc("x", 1)))
		first = id(b)
		bubbleSubmit(t, n, b)
		time.Sleep(2500 * time.Millisecond)
		is(t, n, b, Invalid)
		invalid := askWait(t, n, b, "").json["data"].([]any)[0].(map[string]any)["invalid_transactions"].([]any)
		require.Len(t, invalid, 2)
		assert.Equal(t, invalid[0], invalid[1])
		bubbleSubmit(t, n, mk(t, call(Set("x", 1))))
		time.Sleep(2 * time.Second)
		is(t, n, b, Committed)
		value, _ := n.Value("x")
		assert.Equal(t, int64(2), value)
	})
}

func TestB5FalseInvalid(t *testing.T) {
	f := &Faults{FalseInvalid: 1}
	inBubble(t, Options{Faults: f, ReexecuteAfter: 10 * time.Second}, func(t *testing.T, n *Node) {
		b := mk(t, call(Set("x", 1)))
		bubbleSubmit(t, n, b)
		time.Sleep(10 * time.Second)
		is(t, n, b, Invalid)
		time.Sleep(2 * time.Second)
		is(t, n, b, Committed)
		require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {id(b)}}}))
	})
}

// An identical POST has the effects in the table of docs/ledgers/sawtooth.md#the-same-bytes-again.
func TestB7SameBytesAgain(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := mk(t, call(Set("x", 1)))
		bubbleSubmit(t, n, b)
		bubbleSubmit(t, n, b, b) // accepted recently
		time.Sleep(3 * time.Second)
		is(t, n, b, Committed)
		bubbleSubmit(t, n, b) // committed and remembered
		time.Sleep(1201 * time.Second)
		bubbleSubmit(t, n, b) // committed, and forgotten by the completer
		time.Sleep(3 * time.Second)
		is(t, n, b, Committed)
		assert.Len(t, n.History("x"), 1)
		assert.Equal(t, 2, kinds(n, Accepted, b))
		assert.Equal(t, 4, kinds(n, Ignored, b))
		assert.Equal(t, 1, kinds(n, Published, b))
	})
}

// An INVALID batch is ignored for 1200 s after its last POST, and each POST renews that time.
// Until it is executed again, it stays INVALID (docs/ledgers/sawtooth.md#the-same-bytes-again).
func TestB7InvalidAgain(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := mk(t, call(Inc("x", 1)))
		bubbleSubmit(t, n, b)
		time.Sleep(3 * time.Second)
		is(t, n, b, Invalid)
		bubbleSubmit(t, n, mk(t, call(Set("x", 1))))
		for range 8 {
			time.Sleep(15 * time.Minute)
			bubbleSubmit(t, n, b)
			is(t, n, b, Invalid)
		}
		require.Equal(t, 1+2, kinds(n, Executed, b), "eight tries in two hours never reached the publisher; the next block executed it twice more")
		time.Sleep(1200 * time.Second)
		bubbleSubmit(t, n, b)
		time.Sleep(500 * time.Millisecond)
		is(t, n, b, Invalid) // the batch is pending, and INVALID comes before PENDING
		time.Sleep(3 * time.Second)
		is(t, n, b, Committed)
		require.Equal(t, 1+2+1, kinds(n, Executed, b))
	})
}

// With LazyPurge the cache forgets entries only while another one is added.
func TestDLazyPurge(t *testing.T) {
	inBubble(t, Options{LazyPurge: true}, func(t *testing.T, n *Node) {
		b := mk(t, call(Inc("x", 1)))
		bubbleSubmit(t, n, b)
		time.Sleep(2000 * time.Second)
		bubbleSubmit(t, n, b)
		require.Equal(t, 1, kinds(n, Accepted, b))
		time.Sleep(2000 * time.Second)
		bubbleSubmit(t, n, mk(t, call(Set("x", 1))))
		bubbleSubmit(t, n, b)
		require.Equal(t, 2, kinds(n, Accepted, b))
	})
}

// A restart forgets the batches that were not committed, and the node accepts them again (the last
// row of docs/ledgers/sawtooth.md#the-same-bytes-again).
func TestB7Restart(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		done, bad, pending, parked := mk(t, call(Set("x", 1))), mk(t, call(Inc("unset", 1))), mk(t, call(Inc("x", 2))),
			mk(t, call(Inc("x", 3)).with(func(h *pb.TransactionHeader) { h.Dependencies = []string{"nobody"} }))
		bubbleSubmit(t, n, done, bad)
		time.Sleep(2 * time.Second)
		bubbleSubmit(t, n, pending, parked)
		time.Sleep(500 * time.Millisecond)
		is(t, n, pending, Pending)
		n.Restart()
		is(t, n, done, Committed)
		is(t, n, bad, Unknown)
		is(t, n, pending, Unknown)
		assert.Zero(t, n.PoolLen())
		time.Sleep(5 * time.Second)
		is(t, n, pending, Unknown)
		bubbleSubmit(t, n, pending)
		time.Sleep(2 * time.Second)
		is(t, n, pending, Committed)
		value, _ := n.Value("x")
		assert.Equal(t, int64(3), value)
		require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {id(done), id(pending)}}}))
	})
}

// Batches that do not conflict may overtake each other. Batches that conflict, or depend on each
// other, never do (docs/ledgers/sawtooth.md#order).
func TestB8Overtake(t *testing.T) {
	inBubble(t, Options{Faults: &Faults{Seed: 3, Overtake: .9}}, func(t *testing.T, n *Node) {
		lanes := []string{"x", "y", "z"}
		want := map[string][]batch.ID{}
		of := map[batch.ID]string{}
		var list []*pb.Batch
		var sent []batch.ID
		for i := range 30 {
			name := lanes[i%len(lanes)]
			b := mk(t, call(Set(name, int64(i))))
			list, sent = append(list, b), append(sent, id(b))
			want[name], of[id(b)] = append(want[name], id(b)), name
		}
		last := mk(t, call(Set("free", 1)).with(dependsOn(txID(list[29], 0))))
		list = append(list, last)
		want["free"], of[id(last)] = []batch.ID{id(last)}, "free"
		bubbleSubmit(t, n, list...)
		time.Sleep(2 * time.Second)
		require.NoError(t, n.Check(Expectation{Lane: func(id batch.ID) string { return of[id] }, Order: want}))
		require.NotEqual(t, append(sent, id(last)), n.Chain())
	})
}

// The order inside a list, and that of POSTs each of which waited for the one before, is kept,
// even if blocks have a limited size (docs/ledgers/sawtooth.md#order).
func TestB8Order(t *testing.T) {
	inBubble(t, Options{MaxBatchesPerBlock: 2}, func(t *testing.T, n *Node) {
		var want []batch.ID
		var list []*pb.Batch
		for range 7 {
			b := mk(t, call(Set("x", 1)))
			list, want = append(list, b), append(want, id(b))
		}
		bubbleSubmit(t, n, list[:4]...)
		for _, b := range list[4:] {
			bubbleSubmit(t, n, b)
		}
		time.Sleep(3 * time.Second)
		assert.Len(t, n.Chain(), 6)
		time.Sleep(time.Second)
		require.Equal(t, want, n.Chain())
	})
}
