package sqlite

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/storetest"
)

func TestStore(t *testing.T) { testStore(t, mattnDriver) }

func testStore(t *testing.T, d testDriver) {
	suite := t.Name()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		tier.MarkSuite(t, suite)
		if group := strings.Split(t.Name(), "/")[1]; slices.Contains(d.longGroups, group) {
			tier.Soak(t, "TestStore has it with the same SQL, and the other groups have the driver without cgo")
		}
		s, clk, path := d.fresh(t)
		return storetest.Harness{
			Store: s,
			Reopen: func(t *testing.T) store.Store {
				require.NoError(t, s.db.Close())
				s = d.reopen(t, path, clk)
				return s
			},
			StepClock: clk.step,
			Begin: func(ctx context.Context) (tx store.Tx, commit, rollback func() error, err error) {
				t, err := s.db.BeginTx(ctx, nil)
				if err != nil {
					return nil, nil, nil, err
				}
				return s.Tx(t), t.Commit, t.Rollback, nil
			},
			OneWriter: true,
		}
	})
}
