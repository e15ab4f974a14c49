package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A call that fails ends its transaction and gives its connection back; a connection that may be
// in a transaction does not come back. There is one connection, so that the next call gets it.
func TestAFailedCallLeavesNoTransaction(t *testing.T) {
	for _, d := range []driver{pooled, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			other := s.app()
			if d.pool {
				s.dsn = with(s.dsn, "pool_max_conns=1")
			}
			st := s.open(nil)
			st.db.SetMaxOpenConns(1)
			require.NoError(t, st.Add(t.Context(), one("s", "known")))
			opened := func() int64 {
				if st.pool == nil {
					return 0
				}
				return st.pool.Stat().NewConnsCount()
			}
			begun := opened()
			goesOn := func(id string) {
				t.Helper()
				var n int
				require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in%'`, s.schema).Scan(&n))
				assert.Zero(t, n, "transactions that nobody ends")
				require.NoError(t, st.Add(t.Context(), one("s", id)))
				_, err := other.Get(t.Context(), one("s", id).Key())
				require.NoError(t, err, "what was added is committed")
			}
			conflict := one("s", "known")
			conflict.Payload = []byte("other")
			require.ErrorIs(t, st.Add(t.Context(), one("s", "with it"), conflict), batch.ErrConflict)
			goesOn("after a conflict")
			assert.Panics(t, func() {
				_, _ = st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute},
					func(batch.Lane) []batch.Run { panic("a strategy") })
			})
			goesOn("after a panic")
			assert.Equal(t, begun, opened(), "the connection was kept")

			require.NoError(t, other.addTx(t.Context(), other.mustBegin(t), one("s", "held")))
			soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, st.Add(soon, one("s", "waits"), one("s", "held")), context.DeadlineExceeded)
			require.Eventually(t, func() bool { // the server notices in its own time
				var n int
				require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, s.schema).Scan(&n))
				return n == 0
			}, 10*time.Second, 5*time.Millisecond)
			_, err := st.Get(t.Context(), one("s", "waits").Key())
			require.ErrorIs(t, err, batch.ErrNotFound)
		})
	}
}
