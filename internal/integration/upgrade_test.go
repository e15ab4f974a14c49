package integration

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// old is a process with the code of schema version 1, as far as its statements go: they name
// the columns of that version alone.
type old struct {
	t  *testing.T
	db *sql.DB
	sp string // the schema
}

func (o *old) fill(statement string) string {
	return strings.NewReplacer("{", o.sp+".", "}", "").Replace(statement)
}

func (o *old) run(statement string, args ...any) int64 {
	n, err := o.try(statement, args...)
	assert.NoError(o.t, err, statement)
	return n
}

// try begins again if another transaction got in the way, as the code of all versions does.
func (o *old) try(statement string, args ...any) (n int64, err error) {
	for range 9 {
		var res sql.Result
		res, err = o.db.Exec(o.fill(statement), args...)
		if err == nil {
			return res.RowsAffected()
		}
		if !strings.Contains(err.Error(), "deadlock") {
			return 0, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, err
}

const oldNow = `(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint`

func (o *old) add(service, id string) {
	o.run(oldAdd, service, id, "payload of "+id)
	o.run(`INSERT INTO {services} (service_id) VALUES ($1::text) ON CONFLICT DO NOTHING`, service)
}

// claim takes the first batch of a lane that has none under way.
func (o *old) claim(service string, ttl time.Duration) bool {
	n := o.run(`WITH lane AS (SELECT s.service_id FROM {services} s WHERE s.service_id = $1::text FOR NO KEY UPDATE SKIP LOCKED),
	gone AS (DELETE FROM {waiting_batches} w WHERE (w.service_id, w.created_at, w.seq) = (SELECT q.service_id, q.created_at, q.seq
		FROM {waiting_batches} q, lane WHERE q.service_id = lane.service_id
		AND NOT EXISTS (SELECT 1 FROM {attempted_batches} a WHERE a.service_id = q.service_id) ORDER BY q.created_at LIMIT 1)
		RETURNING w.seq, w.service_id, w.created_at, w.version, w.requeued)
	INSERT INTO {attempted_batches} (seq, service_id, created_at, state, version, attempt, spent, failures, claim_expires, not_before,
		next_check, due_at, asked_at, last_post, settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued,
		submission_error, submission_error_message, decision, receipts, claimed_by, at_end)
	SELECT seq, service_id, created_at, 2, version + 1, 1, 0, 0, `+oldNow+` + $2::bigint, 0, `+oldNow+` + $2::bigint,
		`+oldNow+` + $2::bigint, 0, 0, 0, 1, `+oldNow+`, `+oldNow+`, 0, false, requeued, NULL, '', '', 0, 'old', false FROM gone`,
		service, ttl.Microseconds())
	return n == 1
}

// accept and finish record outcomes of batches that this process has claimed.
func (o *old) accept(service string) {
	o.run(`UPDATE {attempted_batches} SET state = 3, version = version + 1, claim_expires = 0, next_check = `+oldNow+` + 3600000000,
		due_at = `+oldNow+` + 3600000000, last_post = `+oldNow+` WHERE service_id = $1::text AND state = 2 AND claimed_by = 'old'`, service)
}

func (o *old) finish(service string) {
	o.run(`WITH gone AS (DELETE FROM {attempted_batches} a WHERE a.service_id = $1::text AND a.state = 3 AND a.claimed_by = 'old'
		RETURNING a.seq, a.version, a.attempt, a.spent, a.failures, a.asked_at, a.last_post, a.settles_at, a.requeued)
	INSERT INTO {outcomes} (seq, state, version, attempt, spent, failures, asked_at, last_post, settles_at, final_at, requeued,
		submission_error, submission_error_message, receipts)
	SELECT seq, 7, version + 1, attempt, spent, failures, asked_at, last_post, settles_at, `+oldNow+`, requeued, NULL, '', 0 FROM gone`, service)
}

// onlyFront picks the first batch of a lane that has none under way.
func onlyFront(l batch.Lane) []batch.Run {
	for _, b := range l.Batches {
		if !b.State.Claimable() {
			return nil
		}
	}
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}

// deliverAll claims as many batches of lanes as it can, and records them as committed.
func deliverAll(ctx context.Context, st *postgres.Store, ttl time.Duration, lanes ...batch.ServiceID) (int, error) {
	c, err := st.Claim(ctx, store.ClaimQuery{Lanes: lanes, Limit: 100, Window: 1, TTL: ttl, Instance: "new"}, onlyFront)
	if err != nil {
		return 0, err
	}
	var accepted, done []store.Outcome
	for _, r := range c.Runs {
		for _, b := range r.Batches {
			accepted = append(accepted, store.Outcome{Ref: b.Ref, Version: b.Version, Was: b.Was, By: batch.BySubmitter, Attempt: b.Attempt,
				Finding: store.Accepted, Check: time.Hour})
		}
	}
	applied, err := st.Record(ctx, accepted)
	for _, a := range applied {
		done = append(done, store.Outcome{Ref: a.Ref, Version: a.Row.Version, Was: &a.Row, By: batch.ByMonitor, Finding: store.IsCommitted})
	}
	if err == nil {
		_, err = st.Record(ctx, done)
	}
	return len(done), err
}

// A database of version 1, with rows in all of its tables, becomes a database of this version
// while processes of both add, claim and record. No batch is lost, and the store does not
// believe stale values that old processes leave.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{pooled, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := newSpace(t, d)
			st := s.open(nil).Store
			require.NoError(t, st.MigrateTo(ctx, 1))
			require.ErrorIs(t, st.Add(ctx, one("a", 1)), postgres.ErrNotMigrated)
			o := &old{t: t, db: s.admin, sp: s.schema}

			// Rows in all tables.
			want := map[batch.Key]batch.State{}
			put := func(service, id string, state batch.State) {
				o.add(service, id)
				want[batch.Key{Service: batch.ServiceID(service), ID: batch.ID(id)}] = state
			}
			put("final", "final", batch.Committed)
			require.True(t, o.claim("final", time.Minute))
			o.accept("final")
			o.finish("final")
			put("pending", "pending", batch.Pending)
			require.True(t, o.claim("pending", time.Minute))
			o.accept("pending")
			put("expired", "expired", batch.Submitting)
			require.True(t, o.claim("expired", -time.Second))
			put("delayed", "delayed", batch.Delayed)
			require.True(t, o.claim("delayed", time.Minute))
			o.run(`UPDATE {attempted_batches} SET state = 5, version = version + 1, failures = 1, claim_expires = 0, doubt_attempt = 0, doubt_since = 0,
				resend_until = 0, due_at = 9223372036854775807 WHERE service_id = 'delayed'`)
			put("queued", "queued", batch.Queued)
			for _, statement := range []string{
				`INSERT INTO {transactions} SELECT seq, 0, 't', 'f', '1', 'k' FROM {batches}`,
				`INSERT INTO {transaction_receipts} SELECT seq, 0, 't', true, '', '' FROM {outcomes}`,
				`INSERT INTO {batch_acts} SELECT seq, 1, 'cancel', 'ann', 'why', 1, 1, 9, false FROM {batches}`,
				`INSERT INTO {attempts} SELECT seq, 1, 1, 1, '', 202, 0, 'e', 1, '', 'old' FROM {batches}`,
				`INSERT INTO {controls} (everything, service_id, paused_at, paused_by, paused_reason, policy, halted_at, halted_by)
					VALUES (false, 'paused', 1, 'ann', 'why', 0, 0, ''), (false, 'halted', 0, '', '', 3, 5, 'bad')`,
				`INSERT INTO {lane_acts} VALUES (false, 'paused', 1, 'pause', 'ann', 'why', 1, '', 0)`,
				`INSERT INTO {tombstones} VALUES ('00000000000000000000000000000001', 'gone', 's', '\x00', 1)`,
				`INSERT INTO {orders} VALUES (1, 'o', 'p', 1, '', 0, false, 0, '\x00', 'x'), (2, 'f', 'p', 2, '', 0, false, 0, '\x00', 'x')`,
				`INSERT INTO {open_orders} VALUES (1, 'p', 0, 1, 0, false, 1, 1, 1, '', 0, 0, '')`,
				`INSERT INTO {final_orders} VALUES (2, 3, 2, '', 0, 0, '', 1, NULL, '')`,
				`INSERT INTO {unsettled_batches} SELECT min(seq), 'p' FROM {batches}`,
				`INSERT INTO {streams} VALUES ('events', 'h', 1, 1, 1, 1, 'c')`,
				`INSERT INTO {stream_ids} VALUES ('events', 'id', 1)`,
				`INSERT INTO {ledger} VALUES (1, 'l')`,
			} {
				require.Positive(t, o.run(statement), statement)
			}
			rest := []string{"transactions", "transaction_receipts", "batch_acts", "attempts", "controls", "lane_acts", "tombstones", "orders",
				"open_orders", "final_orders", "unsettled_batches", "streams", "stream_ids", "ledger"}
			count := func() (counts []int) {
				for _, table := range rest {
					var n int
					require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM `+s.schema+`.`+table).Scan(&n))
					require.Positive(t, n, table)
					counts = append(counts, n)
				}
				return counts
			}
			before := count()

			// Two of each version at work: the old ones all the time, the new from the upgrade on.
			var stop atomic.Bool
			var wg sync.WaitGroup
			var mu sync.Mutex
			lanes := []batch.ServiceID{"l0", "l1", "l2"}
			added := func(service batch.ServiceID, id batch.ID) {
				mu.Lock()
				defer mu.Unlock()
				want[batch.Key{Service: service, ID: id}] = batch.Committed
			}
			var olds, news atomic.Int64
			for p := range 2 {
				wg.Go(func() {
					for i := 0; !stop.Load(); i++ {
						service := string(lanes[i%len(lanes)])
						id := fmt.Sprintf("old %d %d", p, i)
						o.add(service, id)
						added(batch.ServiceID(service), batch.ID(id))
						if o.claim(service, time.Minute) {
							olds.Add(1)
						}
						o.accept(service)
						o.finish(service)
					}
				})
			}
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, st.Migrate(ctx))
			for p := range 2 {
				wg.Go(func() {
					for i := 0; !stop.Load(); i++ {
						b := one(string(lanes[i%len(lanes)]), fmt.Sprintf("new %d %d", p, i))
						if assert.NoError(t, st.Add(ctx, b)) {
							added(b.Service, b.ID)
						}
						n, err := deliverAll(ctx, st, time.Minute, lanes...)
						assert.NoError(t, err)
						news.Add(int64(n))
					}
				})
			}
			for deadline := time.Now().Add(30 * time.Second); olds.Load() < 20 || news.Load() < 20; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					break // a busy machine: fewer are as good
				}
			}
			stop.Store(true)
			wg.Wait()
			require.Positive(t, news.Load())
			require.Positive(t, olds.Load())
			for _, l := range lanes {
				o.accept(string(l))
				o.finish(string(l))
			}
			for n := 1; n > 0; {
				var err error
				n, err = deliverAll(ctx, st, time.Minute, lanes...)
				require.NoError(t, err)
			}
			assert.Equal(t, before, count(), "%v", rest)
			for key, state := range want {
				rec, err := st.Get(ctx, key)
				if assert.NoError(t, err, "%s is lost", key) {
					assert.Equal(t, state, rec.State, "%s", key)
				}
			}
			c, err := st.Control(ctx, batch.Only("halted"))
			require.NoError(t, err)
			assert.Equal(t, batch.ID("bad"), c.HaltedBy)
			assert.Empty(t, c.HaltReason)

			// The monitor follows the batches that old code has left, and their claims have
			// an unknown length.
			found, err := st.Pending(ctx, store.PendingQuery{Limit: 9, Lease: time.Minute, Services: []batch.ServiceID{"pending", "expired"}})
			require.NoError(t, err)
			require.Len(t, found, 2)
			for _, f := range found {
				assert.Zero(t, f.ClaimTTL)
				assert.Zero(t, f.Was.MovedAt)
			}
			got, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"delayed"}, Limit: 1, Window: 1, TTL: 7 * time.Second}, onlyFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 1)
			was := got.Runs[0].Batches[0].Was
			assert.Equal(t, 7*time.Second, was.ClaimTTL)
			assert.False(t, was.MovedAt.IsZero())
			// An old process claims the batch once more: the length of the claim before does not apply to this
			// claim.
			o.run(`UPDATE {attempted_batches} SET attempt = attempt + 1, version = version + 1, claim_expires = ` + oldNow + ` - 1 WHERE service_id = 'delayed'`)
			found, err = st.Pending(ctx, store.PendingQuery{Limit: 9, Lease: time.Minute, Services: []batch.ServiceID{"delayed"}})
			require.NoError(t, err)
			require.Len(t, found, 1)
			assert.Zero(t, found[0].ClaimTTL)
			assert.True(t, found[0].Was.MovedAt.Equal(was.MovedAt))
			t.Logf("%d batches; %d were delivered by old code, %d by new", len(want), olds.Load(), news.Load())
		})
	}
}
