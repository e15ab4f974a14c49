package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// copyRecorder records the COPY statements that pgx traces.
type copyRecorder struct {
	mu              sync.Mutex
	begunStatements []string
	endedCount      int
}

type copyKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (c *copyRecorder) TraceQueryStart(ctx context.Context, _ *driverpgx.Conn, d driverpgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := strings.HasPrefix(d.SQL, "COPY")
	if is {
		c.begunStatements = append(c.begunStatements, d.SQL)
	}
	return context.WithValue(ctx, copyKey{}, is)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *copyRecorder) TraceQueryEnd(ctx context.Context, _ *driverpgx.Conn, _ driverpgx.TraceQueryEndData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is, _ := ctx.Value(copyKey{}).(bool); is {
		c.endedCount++
	}
}

func (c *copyRecorder) takeCounts() (begun, ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun, ended = len(c.begunStatements), c.endedCount
	c.begunStatements, c.endedCount = nil, 0
	return begun, ended
}

// manyBatches returns batches that use all kinds of columns.
func manyBatches(n int) []batch.Batch {
	list := make([]batch.Batch, n)
	for i := range list {
		b := &list[i]
		*b = newBatch(fmt.Sprintf(`lane "%d" \ ü`, i%7), fmt.Sprintf(`id %d \" ü`, i))
		b.Payload = append(b.Payload, 0, 0xff, byte(i))
		switch i % 5 {
		case 0:
			b.DataChangeID, b.SignerPublicKey = fmt.Sprint("change ", i), "key"
		case 1:
			b.Footprint = batch.Footprint{Writes: []string{fmt.Sprint("w", i)}}
			b.Transactions = []batch.Transaction{{ID: fmt.Sprint("t", i), FamilyName: "family"}}
		case 2:
			b.Trace, b.Budget = true, batch.Budget{Attempts: i, EveryTry: true}
		case 3:
			b.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		case 4:
			b.Tags = batch.Tags{"invoice": fmt.Sprint(i), "customer": "77"}
		}
	}
	list[7].Payload = make([]byte, 300_000) // takes several messages of COPY
	return list
}

// rows returns the rows of added batches in the order of adding, without the columns that differ
// from Add to Add.
func (s *testSpace) rows() (all []string) {
	s.t.Helper()
	found, err := s.admin.Query(`SELECT (to_jsonb(b) - 'seq' - 'created_at')::text || (to_jsonb(w) - 'seq' - 'created_at')::text || (w.seq = b.seq)
		|| (b.created_at - min(b.created_at) OVER ()) || coalesce((SELECT jsonb_agg(to_jsonb(x) - 'batch_seq') FROM ` + s.schema + `.transactions x WHERE x.batch_seq = b.seq)::text, '')
		|| coalesce((SELECT jsonb_agg(jsonb_build_array(x.name, x.value, x.created_at = b.created_at) ORDER BY x.name) FROM ` + s.schema + `.batch_tags x
			WHERE x.batch_seq = b.seq)::text, '')
		FROM ` + s.schema + `.batches b JOIN ` + s.schema + `.waiting_batches w USING (service_id, created_at) ORDER BY b.created_at`)
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, found.Close()) }()
	for found.Next() {
		var row string
		require.NoError(s.t, found.Scan(&row))
		all = append(all, row)
	}
	require.NoError(s.t, found.Err())
	return all
}

// Add writes many new batches by COPY with pgx's own pool, and the rows are the same as those of
// an INSERT. If one of the batches is known the store adds the others; after a conflict it adds
// nothing. A COPY that has to wait ends with its context. AddTx does the same.
func TestManyAreCopied(t *testing.T) {
	t.Parallel()
	const n = 250
	list := manyBatches(n)
	inserted := newSpace(t, libpq)
	require.NoError(t, inserted.app().Add(t.Context(), list...))
	want := inserted.rows()
	require.Len(t, want, n)
	for _, d := range []driver{nativePool, pooledBouncer, pooledSimple} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			s.app()
			var seen copyRecorder
			c, err := pgxpool.ParseConfig(s.dsn)
			require.NoError(t, err)
			c.ConnConfig.Tracer = &seen
			p, err := pgxpool.NewWithConfig(t.Context(), c)
			require.NoError(t, err)
			t.Cleanup(p.Close)
			st, err := native.New(p, &postgres.Options{Schema: s.schema})
			require.NoError(t, err)
			copied := func(want int, what string) {
				t.Helper()
				begun, ended := seen.takeCounts()
				assert.Equal(t, want, begun, what)
				assert.Equal(t, want, ended, what)
			}
			few := newBatch("few", "few")
			require.NoError(t, st.Add(t.Context(), few))
			copied(0, "one batch")
			s.exec(`DELETE FROM ` + s.schema + `.waiting_batches; DELETE FROM ` + s.schema + `.batches`)
			other := s.app() // its transaction makes a COPY wait
			x := other.mustBegin(t)
			require.NoError(t, other.addTx(t.Context(), x, list[3]))
			soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, st.Add(soon, list...), context.DeadlineExceeded)
			require.NoError(t, x.rollback())
			seen.takeCounts()
			require.NoError(t, st.Add(t.Context(), list...))
			copied(2, "batches, and that they wait")
			assert.Equal(t, want, s.rows())

			more := manyBatches(n + 50)
			require.NoError(t, st.Add(t.Context(), more[n/2:]...))
			copied(1, "some are known")
			assert.Len(t, s.rows(), n+50)
			more = manyBatches(n + 60) // after a known batch the store uses no COPY for a while
			more[0].Payload = []byte("other")
			require.ErrorIs(t, st.Add(t.Context(), more...), batch.ErrConflict)
			assert.Len(t, s.rows(), n+50)
			copied(0, "after a known one")
			// The same holds in the application's own transaction, which can continue after each
			// of these calls.
			s.exec(`DELETE FROM ` + s.schema + `.waiting_batches; DELETE FROM ` + s.schema + `.transactions; DELETE FROM ` + s.schema + `.batch_tags; DELETE FROM ` + s.schema + `.batches`)
			st, err = native.New(p, &postgres.Options{Schema: s.schema}) // a new store, which does not know of the known batch
			require.NoError(t, err)
			own, err := p.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = own.Rollback(context.WithoutCancel(t.Context())) }()
			require.NoError(t, st.Tx(own).Add(t.Context(), few))
			copied(0, "one batch in a transaction")
			require.NoError(t, st.Tx(own).Add(t.Context(), list...))
			copied(2, "batches in a transaction")
			more = manyBatches(n + 50)
			require.NoError(t, st.Tx(own).Add(t.Context(), more[n/2:]...))
			copied(1, "some are known in the transaction")
			more = manyBatches(n + 60)
			more[0].Payload = []byte("other")
			require.ErrorIs(t, st.Tx(own).Add(t.Context(), more...), batch.ErrConflict)
			copied(0, "after a known one in the transaction")
			_, err = own.Exec(t.Context(), `DELETE FROM `+s.schema+`.batches WHERE header_signature = 'few'`)
			require.NoError(t, err)
			_, err = own.Exec(t.Context(), `DELETE FROM `+s.schema+`.waiting_batches w WHERE NOT EXISTS (SELECT 1 FROM `+s.schema+`.batches b WHERE b.seq = w.seq)`)
			require.NoError(t, err)
			require.NoError(t, own.Commit(t.Context()))
			got := s.rows()
			require.Len(t, got, n+50)
			// The order keys of one transaction are consecutive, like those of one Add.
			assert.Equal(t, want, got[:n])

			var left int
			require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%' AND query LIKE 'COPY%'`).Scan(&left))
			assert.Zero(t, left, "transactions that nobody ends")
		})
	}
}
