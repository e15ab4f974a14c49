package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSawtooth submits to a Sawtooth node, which forgets its pool and all statuses
// when it starts again.
func TestSawtooth(t *testing.T) { chaos(t, sawtoothNode) }

// TestUnforgiving submits to a ledger that executes every duplicate.
func TestUnforgiving(t *testing.T) { chaos(t, unforgiving) }

func chaos(t *testing.T, ledger string) {
	t.Logf("seed %d", *chaosSeed)
	w := newWorld(t, ledger, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan time.Duration, 1)
	go func() { held <- w.hold(ctx, *chaosTime) }()
	f, err := w.deal(*chaosSeed, *chaosFaults, *chaosTime)
	cancel()
	t.Logf("nothing could be cleaned up for %s", <-held)
	require.NoError(t, err)
	acked := w.add.end()
	st := w.store()
	w.rest(st)
	for _, k := range kinds {
		t.Logf("%4d %s", f.count[k.name], k.name)
		assert.Positive(t, f.count[k.name], "%s: never occurred", k.name)
	}
	w.check(st, acked)
}
