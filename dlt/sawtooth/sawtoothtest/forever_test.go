package sawtoothtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

func dependsOn(ids ...string) func(h *pb.TransactionHeader) {
	return func(h *pb.TransactionHeader) { h.Dependencies = ids }
}

func txID(b *pb.Batch, i int) string { return b.GetTransactions()[i].GetHeaderSignature() }

// forever requires that a batch is PENDING and stays so, without a message.
func forever(t testing.TB, n *Node, b *pb.Batch) {
	t.Helper()
	for range 3 {
		is(t, n, b, Pending)
		time.Sleep(10 * time.Minute)
	}
	is(t, n, b, Pending)
}

// A batch with a dependency that no node has seen is UNKNOWN until the dependency comes
// (docs/ledgers/sawtooth.md#dependencies, docs/ledgers/sawtooth.md#the-same-bytes-again).
func TestA4Parked(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		first := mk(t, call(Set("x", 1)))
		second := mk(t, call(Inc("x", 1)).with(dependsOn(txID(first, 0))))
		third := mk(t, call(Inc("x", 1)).with(dependsOn(txID(second, 0))))
		bubbleSubmit(t, n, third)
		bubbleSubmit(t, n, second)
		time.Sleep(10 * time.Second)
		is(t, n, second, Unknown)
		bubbleSubmit(t, n, second) // checked again, which does no harm
		assert.Equal(t, 2, kinds(n, Parked, second))
		bubbleSubmit(t, n, first)
		time.Sleep(2 * time.Second)
		for _, b := range []*pb.Batch{first, second, third} {
			is(t, n, b, Committed)
		}
		assert.Len(t, n.History("x"), 3)
	})
}

// A batch that has waited for a dependency for about 1200 s is forgotten
// (docs/ledgers/sawtooth.md#dependencies).
func TestA4ParkedIsForgotten(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		first := mk(t, call(Set("x", 1)))
		second := mk(t, call(Inc("x", 1)).with(dependsOn(txID(first, 0))))
		bubbleSubmit(t, n, second)
		time.Sleep(1200 * time.Second)
		bubbleSubmit(t, n, first)
		time.Sleep(5 * time.Second)
		is(t, n, first, Committed)
		is(t, n, second, Unknown)
		bubbleSubmit(t, n, second)
		time.Sleep(2 * time.Second)
		is(t, n, second, Committed)
	})
}

// A batch is pending for ever if its dependency failed, in the same block or before
// (docs/ledgers/sawtooth.md#pending-for-ever, P1).
func TestB6P1(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		bad := mk(t, call(Inc("unset", 1)))
		same := mk(t, call(Set("x", 1)).with(dependsOn(txID(bad, 0))))
		bubbleSubmit(t, n, bad, same)
		time.Sleep(3 * time.Second)
		is(t, n, bad, Invalid)
		later := mk(t, call(Set("x", 2)).with(dependsOn(txID(bad, 0))))
		bubbleSubmit(t, n, later)
		time.Sleep(3 * time.Second)
		forever(t, n, same)
		forever(t, n, later)
		_, set := n.Value("x")
		assert.False(t, set)
		assert.Zero(t, n.PoolLen())
	})
}

// A batch is pending for ever if its transaction is in the chain through another batch: at most
// one of them commits (docs/ledgers/sawtooth.md#pending-for-ever, P2).
func TestB6P2(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		x := signTx(t, call(Set("x", 1)))
		first, second, third := wrap(t, x), wrap(t, x, signTx(t, call(Set("y", 1)))), wrap(t, signTx(t, call(Set("z", 1))), x)
		bubbleSubmit(t, n, first, second)
		time.Sleep(3 * time.Second)
		bubbleSubmit(t, n, third)
		time.Sleep(3 * time.Second)
		is(t, n, first, Committed)
		forever(t, n, second)
		forever(t, n, third)
		assert.Len(t, n.History("x"), 1)
	})
}

// A batch is pending for ever if its inputs or outputs are malformed
// (docs/ledgers/sawtooth.md#pending-for-ever, P3).
func TestB6P3(t *testing.T) {
	for name, prefix := range map[string]string{"odd": "1cf12", "upper case": "1CF126", "long": Address("x") + "00", "no hex": "zz"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, n *Node) {
				b := mk(t, call(Set("x", 1)).with(func(h *pb.TransactionHeader) { h.Inputs = append(h.GetInputs(), prefix) }))
				bubbleSubmit(t, n, b)
				time.Sleep(3 * time.Second)
				forever(t, n, b)
			})
		})
	}
}

// A batch that has waited for more than 600 s before it fails stays pending, because its failure
// is no longer attributed to it (docs/ledgers/sawtooth.md#pending-for-ever, P4).
func TestB6P4(t *testing.T) {
	inBubble(t, Options{BlockInterval: 700 * time.Second, PublishDelay: -1}, func(t *testing.T, n *Node) {
		b := mk(t, call(Inc("unset", 1)))
		bubbleSubmit(t, n, b)
		time.Sleep(701 * time.Second)
		require.Equal(t, 1, kinds(n, Executed, b))
		forever(t, n, b)
	})
}

// If the same invalid transaction is in two batches, only the first batch found is marked, and the
// other stays pending (docs/ledgers/sawtooth.md#pending-for-ever, P6).
func TestB6P6(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, n *Node) {
		x := signTx(t, call(Inc("unset", 1)))
		first, second := wrap(t, x), wrap(t, x, signTx(t, call(Set("y", 1))))
		bubbleSubmit(t, n, first)
		time.Sleep(3 * time.Second)
		bubbleSubmit(t, n, second)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, kinds(n, Executed, second))
		is(t, n, first, Invalid)
		forever(t, n, second)
	})
}

// A batch that a fault loses was accepted and never appears again: its bytes are ignored until the
// cache forgets them.
func TestLost(t *testing.T) {
	f := &Faults{Batch: func(_ batch.ID, try int) BatchFault { return BatchFault{Lose: try == 1} }}
	inBubble(t, Options{Faults: f}, func(t *testing.T, n *Node) {
		b := mk(t, call(Set("x", 1)))
		bubbleSubmit(t, n, b)
		time.Sleep(10 * time.Minute)
		is(t, n, b, Unknown)
		bubbleSubmit(t, n, b)
		time.Sleep(20 * time.Minute)
		is(t, n, b, Unknown)
		bubbleSubmit(t, n, b)
		time.Sleep(2 * time.Second)
		is(t, n, b, Committed)
	})
}
