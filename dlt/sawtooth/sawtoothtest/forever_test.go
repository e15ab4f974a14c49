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

// requirePendingForever requires that a batch is PENDING and stays so, without a message.
func requirePendingForever(t testing.TB, n *Node, b *pb.Batch) {
	t.Helper()
	for range 3 {
		requireStatus(t, n, b, Pending)
		time.Sleep(10 * time.Minute)
	}
	requireStatus(t, n, b, Pending)
}

// A batch with a dependency that no node has seen is UNKNOWN until the dependency comes
// (docs/ledgers/sawtooth.md#dependencies, docs/ledgers/sawtooth.md#the-same-bytes-again).
func TestABatchWaitsForItsDependency(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		first := makeBatch(t, intkeyTx(Set("x", 1)))
		second := makeBatch(t, intkeyTx(Inc("x", 1)).withHeader(dependsOn(txID(first, 0))))
		third := makeBatch(t, intkeyTx(Inc("x", 1)).withHeader(dependsOn(txID(second, 0))))
		submitInBubble(t, n, third)
		submitInBubble(t, n, second)
		time.Sleep(10 * time.Second)
		requireStatus(t, n, second, Unknown)
		submitInBubble(t, n, second) // checked again, which does no harm
		assert.Equal(t, 2, countEntries(n, Parked, second))
		submitInBubble(t, n, first)
		time.Sleep(2 * time.Second)
		for _, b := range []*pb.Batch{first, second, third} {
			requireStatus(t, n, b, Committed)
		}
		assert.Len(t, n.History("x"), 3)
	})
}

// A batch that has waited for a dependency for about 1200 s is forgotten
// (docs/ledgers/sawtooth.md#dependencies).
func TestABatchThatWaitsForADependencyIsForgotten(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		first := makeBatch(t, intkeyTx(Set("x", 1)))
		second := makeBatch(t, intkeyTx(Inc("x", 1)).withHeader(dependsOn(txID(first, 0))))
		submitInBubble(t, n, second)
		time.Sleep(1200 * time.Second)
		submitInBubble(t, n, first)
		time.Sleep(5 * time.Second)
		requireStatus(t, n, first, Committed)
		requireStatus(t, n, second, Unknown)
		submitInBubble(t, n, second)
		time.Sleep(2 * time.Second)
		requireStatus(t, n, second, Committed)
	})
}

// A batch is pending for ever if its dependency failed, in the same block or before
// (docs/ledgers/sawtooth.md#pending-for-ever, P1).
func TestPendingForeverBehindAFailedDependency(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		bad := makeBatch(t, intkeyTx(Inc("unset", 1)))
		same := makeBatch(t, intkeyTx(Set("x", 1)).withHeader(dependsOn(txID(bad, 0))))
		submitInBubble(t, n, bad, same)
		time.Sleep(3 * time.Second)
		requireStatus(t, n, bad, Invalid)
		later := makeBatch(t, intkeyTx(Set("x", 2)).withHeader(dependsOn(txID(bad, 0))))
		submitInBubble(t, n, later)
		time.Sleep(3 * time.Second)
		requirePendingForever(t, n, same)
		requirePendingForever(t, n, later)
		_, set := n.Value("x")
		assert.False(t, set)
		assert.Zero(t, n.PoolLen())
	})
}

// A batch is pending for ever if its transaction is in the chain through another batch: at most
// one of them commits (docs/ledgers/sawtooth.md#pending-for-ever, P2).
func TestPendingForeverWithACommittedTransaction(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		x := signTx(t, intkeyTx(Set("x", 1)))
		first, second, third := signBatch(t, x), signBatch(t, x, signTx(t, intkeyTx(Set("y", 1)))), signBatch(t, signTx(t, intkeyTx(Set("z", 1))), x)
		submitInBubble(t, n, first, second)
		time.Sleep(3 * time.Second)
		submitInBubble(t, n, third)
		time.Sleep(3 * time.Second)
		requireStatus(t, n, first, Committed)
		requirePendingForever(t, n, second)
		requirePendingForever(t, n, third)
		assert.Len(t, n.History("x"), 1)
	})
}

// A batch is pending for ever if its inputs or outputs are malformed
// (docs/ledgers/sawtooth.md#pending-for-ever, P3).
func TestPendingForeverWithMalformedAddresses(t *testing.T) {
	for name, prefix := range map[string]string{"odd": "1cf12", "upper case": "1CF126", "long": Address("x") + "00", "no hex": "zz"} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, Options{}, func(t *testing.T, n *Node) {
				b := makeBatch(t, intkeyTx(Set("x", 1)).withHeader(func(h *pb.TransactionHeader) { h.Inputs = append(h.GetInputs(), prefix) }))
				submitInBubble(t, n, b)
				time.Sleep(3 * time.Second)
				requirePendingForever(t, n, b)
			})
		})
	}
}

// A batch that has waited for more than 600 s before it fails stays pending, because its failure
// is no longer attributed to it (docs/ledgers/sawtooth.md#pending-for-ever, P4).
func TestPendingForeverAfterALongWait(t *testing.T) {
	runInBubble(t, Options{BlockInterval: 700 * time.Second, PublishDelay: -1}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Inc("unset", 1)))
		submitInBubble(t, n, b)
		time.Sleep(701 * time.Second)
		require.Equal(t, 1, countEntries(n, Executed, b))
		requirePendingForever(t, n, b)
	})
}

// If the same invalid transaction is in two batches, only the first batch found is marked, and the
// other stays pending (docs/ledgers/sawtooth.md#pending-for-ever, P6).
func TestPendingForeverWithASharedInvalidTransaction(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		x := signTx(t, intkeyTx(Inc("unset", 1)))
		first, second := signBatch(t, x), signBatch(t, x, signTx(t, intkeyTx(Set("y", 1))))
		submitInBubble(t, n, first)
		time.Sleep(3 * time.Second)
		submitInBubble(t, n, second)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, countEntries(n, Executed, second))
		requireStatus(t, n, first, Invalid)
		requirePendingForever(t, n, second)
	})
}

// A batch that a fault loses was accepted and never appears again: its bytes are ignored until the
// cache forgets them.
func TestALostBatchIsIgnoredUntilTheCacheForgetsIt(t *testing.T) {
	f := &Faults{Batch: func(_ batch.ID, try int) BatchFault { return BatchFault{Lose: try == 1} }}
	runInBubble(t, Options{Faults: f}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(10 * time.Minute)
		requireStatus(t, n, b, Unknown)
		submitInBubble(t, n, b)
		time.Sleep(20 * time.Minute)
		requireStatus(t, n, b, Unknown)
		submitInBubble(t, n, b)
		time.Sleep(2 * time.Second)
		requireStatus(t, n, b, Committed)
	})
}
