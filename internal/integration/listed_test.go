package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// endCounter counts transactions by the statement that ended them.
type endCounter struct {
	mu        sync.Mutex
	endCounts map[string]int
}

// TraceQueryStart is called before a statement is sent.
func (e *endCounter) TraceQueryStart(ctx context.Context, _ *driverpgx.Conn, q driverpgx.TraceQueryStartData) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		if strings.HasSuffix(q.SQL, end) { // a COMMIT may follow another statement
			e.endCounts[end]++
		}
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (*endCounter) TraceQueryEnd(context.Context, *driverpgx.Conn, driverpgx.TraceQueryEndData) {}

// takeCounts returns the counts since the last call, and resets them.
func (e *endCounter) takeCounts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := e.endCounts
	e.endCounts = map[string]int{}
	return seen
}

// The first claim of a new lane needs no second transaction: the store inserts the lane's row
// beforehand. If it knows that the row exists, it inserts nothing; if the row was removed, it
// inserts it again.
func TestAClaimFromNewLanesDoesNotBeginTwice(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	s.store()
	config, err := driverpgx.ParseConfig(s.dsn)
	require.NoError(t, err)
	e := &endCounter{endCounts: map[string]int{}}
	config.Tracer = e
	db := stdlib.OpenDB(*config)
	defer db.Close()
	st, err := postgres.New(db, &postgres.Options{Schema: s.schema})
	require.NoError(t, err)
	n := 0
	claim := func(want int, lanes ...batch.ServiceID) map[string]int {
		for _, service := range lanes {
			if n++; service != "empty" {
				require.NoError(t, st.Add(t.Context(), newBatch(string(service), n)))
			}
		}
		e.takeCounts()
		got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: lanes, Limit: 9, Window: 9, TTL: time.Minute}, pickFront)
		require.NoError(t, err)
		assert.Len(t, got.Runs, want)
		return e.takeCounts()
	}
	assert.Equal(t, map[string]int{"COMMIT": 2}, claim(2, "a", "b", "empty"))
	var rows int
	require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM `+s.schema+`.services`).Scan(&rows))
	assert.Equal(t, 2, rows, "of lanes that have something")
	assert.Equal(t, map[string]int{"COMMIT": 2}, claim(2, "c", "a", "d"), "beside a known one, of which one is under way")
	assert.Equal(t, map[string]int{"COMMIT": 1}, claim(0, "a", "b"))
	other, err := postgres.New(db, &postgres.Options{Schema: s.schema})
	require.NoError(t, err)
	held := func() map[string]int {
		e.takeCounts()
		got, err := other.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"f"}, Limit: 9, Window: 9, TTL: time.Minute}, pickFront)
		require.NoError(t, err)
		assert.Equal(t, []batch.ServiceID{"f"}, got.Locked)
		return e.takeCounts()
	}
	require.NoError(t, st.Add(t.Context(), newBatch("f", 100)))
	_, err = st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"f"}, Limit: 9, Window: 9, TTL: time.Minute}, func(batch.Lane) []batch.Run {
		assert.Equal(t, map[string]int{"COMMIT": 2}, held())
		assert.Equal(t, map[string]int{"COMMIT": 1}, held(), "of a lane that was held its row is known, too")
		return nil
	})
	require.NoError(t, err)
	s.exec(`DELETE FROM ` + s.schema + `.services`)
	assert.Equal(t, map[string]int{"COMMIT": 3, "ROLLBACK": 1}, claim(1, "e", "a"))
}
