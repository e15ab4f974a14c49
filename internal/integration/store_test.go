package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// storeTestGroups are the parts of the suite that the drivers run which do not run all of it. The
// rules and the statements are the same code for all drivers: a driver encodes values and holds
// connections. pgx's own pool runs everything. lib/pq, which encodes in another way, runs all
// except the model and each outcome in each state, which test rules. pgx's driver of database/sql
// encodes as the pool does, and PgBouncer passes bytes on: they run what has transactions, texts,
// and calls that are cancelled. In the groups with many goroutines, the pool also runs with the
// race detector.
var storeTestGroups = []string{"harness", "add", "claim", "record", "pending", "operate", "text", "context"}

// The conformance suite passes with every driver, and with pgx's pool and lib/pq through
// PgBouncer.
func TestStore(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, pgx, libpq, pooledBouncer, pqBouncer} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, d.inSuite(t)) })
		})
	}
}

// inSuite returns the driver for a test of the suite, or skips the test if other drivers cover it.
func (d driver) inSuite(t *testing.T) driver {
	t.Helper()
	parts := strings.SplitN(t.Name(), "/", 4) // TestStore, the driver, the group, the test
	if len(parts) < 4 {                       // declared by the harness, for all groups
		parts = append(parts, "harness", "")
	}
	group := parts[2]
	rules := group == "model" || strings.HasPrefix(parts[3], "every_finding")
	if d != nativePool && (rules || d != libpq && !slices.Contains(storeTestGroups, group)) {
		parts[1] = nativePool.name
		tier.Instead(t, strings.Join(parts, "/"))
	}
	if tier.Meets(group) {
		return d.inRace()
	}
	return d
}

func harness(t *testing.T, d driver) storetest.Harness {
	s := usedSpace(t, d)
	a := s.app()
	return storetest.Harness{
		Store: a.driverStore(),
		Reopen: func(t *testing.T) store.Store {
			a.close()
			a = s.open(nil)
			return a.driverStore()
		},
		StepClock: s.stepClock,
		Begin: func(ctx context.Context) (tx store.Tx, commit, rollback func() error, err error) {
			x, err := a.begin(ctx)
			if err != nil {
				return nil, nil, nil, err
			}
			return a.ownTx(x), x.commit, x.rollback, nil
		},
	}
}
