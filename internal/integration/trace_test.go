package integration

import (
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A schema without the column for trace contexts serves everything else, and gets it while two processes
// add and deliver. Soon after that contexts are kept, by both.
func TestTraceUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{pooled, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := newSpace(t, d)
			st, other := s.open(nil), s.open(nil)
			require.NoError(t, st.MigrateTo(ctx, 4))
			traced := func(lane, id string) batch.Batch {
				b := one(lane, id)
				b.TraceParent = traceParent
				return b
			}
			var stop atomic.Bool
			var wg sync.WaitGroup
			var delivered, added atomic.Int64
			for p, st := range []*app{st, other} {
				lane := fmt.Sprint("lane ", p)
				wg.Go(func() {
					for i := 0; !stop.Load(); i++ {
						if assert.NoError(t, st.Add(ctx, traced(lane, fmt.Sprint(lane, " ", i)))) {
							added.Add(1)
						}
						n, err := deliverAll(ctx, st.Store, time.Minute, batch.ServiceID(lane))
						assert.NoError(t, err)
						delivered.Add(int64(n))
					}
				})
			}
			defer wg.Wait()
			defer stop.Store(true)
			var first batch.Record
			waitFor(t, func() bool {
				r, err := st.Get(ctx, traced("lane 0", "lane 0 0").Key())
				first = r
				return err == nil && delivered.Load() > 5
			})
			require.Empty(t, first.TraceParent)
			require.NoError(t, st.Migrate(ctx))
			require.Equal(t, newest, s.version())
			at := delivered.Load()
			waitFor(t, func() bool { return delivered.Load() > at+5 })
			for p, st := range []*app{st, other} {
				n := 0
				waitFor(t, func() bool { // it looks every ten seconds
					b := traced("later", fmt.Sprint("later ", p, " ", n))
					n++
					assert.NoError(t, st.Add(ctx, b))
					r, err := st.Get(ctx, b.Key())
					assert.NoError(t, err)
					return r.TraceParent == traceParent
				})
			}
			stop.Store(true)
			wg.Wait()
			assert.Equal(t, added.Load(), delivered.Load())

			// Orders have theirs since version 6.
			ordered := func(st *app, id batch.OrderID) string {
				require.NoError(t, st.AddOrders(ctx, batch.Order{ID: id, Party: "p", Payload: []byte("p"), TraceParent: traceParent}))
				found, err := st.NextOrders(ctx, "p", store.NextQuery{Max: 9})
				require.NoError(t, err)
				return found[len(found)-1].TraceParent
			}
			assert.Equal(t, traceParent, ordered(st, "1"))
			assert.Equal(t, traceParent, ordered(other, "2"))
			_, err := s.admin.ExecContext(ctx, `UPDATE `+s.schema+`.orders SET trace_parent = 'short'`)
			require.ErrorContains(t, err, "orders_trace")
			require.NoError(t, st.MigrateTo(ctx, 5))
			fifth := s.open(nil)
			assert.Empty(t, ordered(fifth, "3"))
			require.NoError(t, st.Migrate(ctx))
			n := 3
			waitFor(t, func() bool { // this process only adds orders
				n++
				o := batch.Order{ID: batch.OrderID(fmt.Sprint(n)), Party: "p", Payload: []byte("p"), TraceParent: traceParent}
				assert.NoError(t, fifth.AddOrders(ctx, o))
				var kept sql.NullString
				assert.NoError(t, s.admin.QueryRow(`SELECT trace_parent FROM `+s.schema+`.orders WHERE order_id = $1`, o.ID).Scan(&kept))
				return kept.String == traceParent
			})

			// What is no context is in no column, and other code names no such column.
			s.exec(oldInsert(s))
			_, err = s.admin.ExecContext(ctx, `UPDATE `+s.schema+`.batches SET trace_parent = 'short' WHERE service_id = 'old'`)
			require.ErrorContains(t, err, "batches_trace")
			require.NoError(t, st.MigrateTo(ctx, 4))
			require.NoError(t, st.Add(ctx, traced("later", "after all")))
		})
	}
}

// oldInsert is an insert of code of version 4, as far as its columns go.
func oldInsert(s *space) string {
	return `INSERT INTO ` + s.schema + `.batches (seq, id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key,
		trace, payload_hash, budget_attempts, budget_every_try, footprint, serialized_batch)
		VALUES (-1, md5('old')::uuid, 'old', 'old', 1, '', '', false, '\x00', 0, false, NULL, '\x00')`
}
