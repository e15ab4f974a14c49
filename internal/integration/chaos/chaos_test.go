package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// TestSawtooth submits to a Sawtooth node, which loses its pool and all statuses when it restarts.
func TestSawtooth(t *testing.T) { runChaos(t, sawtoothNode) }

// TestUnforgiving submits to a ledger that executes every duplicate.
func TestUnforgiving(t *testing.T) { runChaos(t, unforgivingLedger) }

// TestIntents executes intents on a real EVM node, anvil. The node loses its pool and its last
// blocks when it is killed, and replaces blocks; other senders use its accounts, too.
func TestIntents(t *testing.T) { t.Parallel(); runChaos(t, evmNode) }

// TestSigned is TestIntents with signed transactions, several of an account at once. It runs
// beside TestIntents, because both mostly wait for blocks.
func TestSigned(t *testing.T) {
	tier.Soak(t, "TestIntents has the same faults, and TestFaults of dlt/evm has them for signed transactions")
	t.Parallel()
	runChaos(t, evmSigned)
}

// TestIntentsOnGeth executes intents on geth. A kill removes its last blocks, whose transactions
// return to its pool ten seconds later; a reorganization returns them at once.
func TestIntentsOnGeth(t *testing.T) {
	tier.Soak(t, "to compile geth takes ten minutes, and TestIntents has the same faults")
	_, err := binaries.Geth().Bring()
	require.NoError(t, err)
	t.Parallel()
	runChaos(t, gethNode)
}

func runChaos(t *testing.T, ledger string) {
	t.Logf("seed %d", *chaosSeed)
	w := newWorld(t, ledger, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan time.Duration, 1)
	go func() { held <- w.holdCleanup(ctx, *chaosTime) }()
	var still *watcher
	if onChain(ledger) {
		still = w.watch()
	}
	f, err := w.injectFaults(*chaosSeed, w.faultCount(), *chaosTime)
	cancel()
	t.Logf("nothing could be cleaned up for %s", <-held)
	require.NoError(t, err)
	acked := w.producer.end()
	st := w.store()
	if still != nil {
		still.endFaults()
	}
	w.waitUntilFinal(st)
	if still != nil {
		still.end()
	}
	for _, k := range w.faultKinds() {
		t.Logf("%4d %s", f.count[k.name], k.name)
		assert.Positive(t, f.count[k.name], "%s: never occurred", k.name)
	}
	w.check(st, acked)
}

// faultCount is the number of faults: enough for each kind to occur.
func (w *world) faultCount() int {
	if onChain(w.ledgerKind) {
		return max(*chaosFaults, 3*len(w.faultKinds())/2) // many kinds have the same object, and wait for it
	}
	return *chaosFaults
}
