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

// TestSawtooth submits to a Sawtooth node, which forgets its pool and all statuses
// when it starts again.
func TestSawtooth(t *testing.T) { chaos(t, sawtoothNode) }

// TestUnforgiving submits to a ledger that executes every duplicate.
func TestUnforgiving(t *testing.T) { chaos(t, unforgiving) }

// TestIntents executes intents on a real EVM node, anvil, which loses its pool and its last blocks
// when it is killed, replaces blocks, and whose accounts somebody else uses, too.
func TestIntents(t *testing.T) { t.Parallel(); chaos(t, evmNode) }

// TestSigned does so with signed transactions, several of an account at once. It runs beside
// TestIntents, since both wait for blocks.
func TestSigned(t *testing.T) {
	tier.Soak(t, "TestIntents has the same faults, and TestFaults of dlt/evm has them for signed transactions")
	t.Parallel()
	chaos(t, evmSigned)
}

// TestIntentsOnGeth executes intents on a geth. A kill takes back its last blocks, what they had
// is in its pool again ten seconds later, and a reorganization puts it there at once.
func TestIntentsOnGeth(t *testing.T) {
	tier.Soak(t, "to compile geth takes ten minutes, and TestIntents has the same faults")
	_, err := binaries.Geth().Bring()
	require.NoError(t, err)
	t.Parallel()
	chaos(t, gethNode)
}

func chaos(t *testing.T, ledger string) {
	t.Logf("seed %d", *chaosSeed)
	w := newWorld(t, ledger, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan time.Duration, 1)
	go func() { held <- w.hold(ctx, *chaosTime) }()
	var still *watcher
	if onChain(ledger) {
		still = w.watch()
	}
	f, err := w.deal(*chaosSeed, w.faults(), *chaosTime)
	cancel()
	t.Logf("nothing could be cleaned up for %s", <-held)
	require.NoError(t, err)
	acked := w.add.end()
	st := w.store()
	if still != nil {
		still.calm()
	}
	w.rest(st)
	if still != nil {
		still.end()
	}
	for _, k := range w.kinds() {
		t.Logf("%4d %s", f.count[k.name], k.name)
		assert.Positive(t, f.count[k.name], "%s: never occurred", k.name)
	}
	w.check(st, acked)
}

// faults is how many there are: enough for each kind to occur.
func (w *world) faults() int {
	if onChain(w.kind) {
		return max(*chaosFaults, 3*len(w.kinds())/2) // many have the same object, and wait for it
	}
	return *chaosFaults
}
