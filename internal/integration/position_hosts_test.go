package integration

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// A host may hide locks from a role: all of them, or those of other roles. The store still sees
// that a slow Add has begun.
func TestWhereLocksAreHidden(t *testing.T) {
	for name, view := range map[string]string{
		"all": `CREATE FUNCTION %s.hide() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE insufficient_privilege; END';
			CREATE VIEW %s.pg_locks AS SELECT * FROM pg_catalog.pg_locks WHERE %s.hide()`,
		"others'": `CREATE VIEW %s.pg_locks AS SELECT * FROM pg_catalog.pg_locks WHERE pid = pg_backend_pid()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, pgx)
			st, _ := s.store()
			s.exec(strings.ReplaceAll(view, "%s", s.schema))
			g := newOrderKeyGate(s)
			slow := g.store()
			_, err := slow.Get(t.Context(), batch.Key{Service: "s", ID: "none"})
			require.ErrorIs(t, err, batch.ErrNotFound)
			tx, err := s.open(nil).db.Begin() // keeps all transaction ids from advancing
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec(`SELECT pg_current_xact_id()`)
			require.NoError(t, err)
			learnPosition(t, st, "s", "before")
			open := g.close()
			done := make(chan error, 1)
			go func() { done <- slow.Add(t.Context(), newBatch("s", "late")) }()
			require.Eventually(t, g.hasWaiting, 10*time.Second, 5*time.Millisecond)
			learnPosition(t, st, "s", "later")
			open()
			require.NoError(t, <-done)
			require.NoError(t, st.Add(t.Context(), newBatch("s", "last")))
			assert.Equal(t, batch.ID("late"), claimFirst(t, st, "s"))
		})
	}
}

// A transaction in another database of the server keeps all transaction ids from advancing. The
// locks show that no Add is under way, so claims still begin at the open work.
func TestAWriterElsewhereHoldsNothingUp(t *testing.T) {
	t.Parallel()
	v := &deliverer{bufferCounter: newBufferCounter(t), ctx: t.Context(), lanes: []batch.ServiceID{"s"}}
	_, err := v.admin.Exec(`CREATE DATABASE elsewhere`)
	require.NoError(t, err)
	elsewhere := openAdmin(t, dsnOfDatabase(t, v.dsn, "elsewhere"))
	defer func() { _ = elsewhere.Close() }()
	defer v.holdSnapshot()()
	tx, err := elsewhere.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	v.deliverAndPrune(1500)
	learnPosition(t, v.st, "s", "more")
	least := int64(1 << 62)
	for range 5 {
		v.add(1)
		var claims []store.Claim
		least = min(least, v.buffersOf(func() { claims = v.claim(1) }))
		v.record(claims, batch.BySubmitter, store.Accepted)
		v.record(claims, batch.ByMonitor, store.IsCommitted)
	}
	t.Logf("%d buffers a claim", least)
	assert.Less(t, least, int64(100), "of a lane with 1,500 dead rows")
}

// If another claim holds a lane, the store does not look for work in the lane.
func TestAHeldLaneIsNotRead(t *testing.T) {
	t.Parallel()
	v := &deliverer{bufferCounter: newBufferCounter(t), ctx: t.Context(), lanes: []batch.ServiceID{"s"}}
	defer v.holdSnapshot()()
	v.deliverAndPrune(1500)
	v.add(1)
	other := openAdmin(t, v.dsn)
	defer func() { _ = other.Close() }()
	tx, err := other.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`SELECT 1 FROM dltbatch.services FOR UPDATE`)
	require.NoError(t, err)
	buffers := v.buffersOf(func() {
		got, err := v.st.Claim(t.Context(), store.ClaimQuery{Lanes: v.lanes, Limit: 1, Window: 1, TTL: time.Minute}, pickFront)
		require.NoError(t, err)
		require.Equal(t, v.lanes, got.Locked)
	})
	assert.Less(t, buffers, int64(100), "of a lane with 1,500 dead rows")
}

// With asynchronous commits a final batch may be open again after a crash of a server process,
// from which the server recovers without a restart.
func TestAsynchronousCommitsAreNotBelieved(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	_, db := s.store()
	st, err := postgres.New(db, &postgres.Options{Schema: s.schema, AllowAsynchronousCommit: true})
	require.NoError(t, err)
	require.NoError(t, st.Add(t.Context(), newBatch("s", "first")))
	learnPosition(t, st, "s", "later")
	s.exec(strings.ReplaceAll(`WITH gone AS (DELETE FROM %s.outcomes f USING %s.batches b WHERE b.header_signature = 'first' AND f.seq = b.seq
		RETURNING b.service_id, b.created_at, b.seq) INSERT INTO %s.waiting_batches SELECT service_id, created_at, seq, 1, false FROM gone`, "%s", s.schema))
	require.NoError(t, st.Add(t.Context(), newBatch("s", "last")))
	assert.Equal(t, batch.ID("first"), claimFirst(t, st, "s"))
}

// poolOfSwitchedServer returns a pool of connections whose server can be exchanged.
func poolOfSwitchedServer(t *testing.T, c *pgtest.Cluster) (*sql.DB, func(*pgtest.Cluster)) {
	var addr atomic.Value
	addr.Store(c.Addr())
	config, err := driverpgx.ParseConfig(c.DSN(""))
	require.NoError(t, err)
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, to *driverpgx.ConnConfig) error {
		host, port, err := net.SplitHostPort(addr.Load().(string))
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		to.Host, to.Port = host, uint16(n)
		return err
	}))
	t.Cleanup(func() { _ = db.Close() })
	return db, func(c *pgtest.Cluster) { addr.Store(c.Addr()) }
}

// cutStandbyOff lets a standby get all commits so far, and no later ones.
func cutStandbyOff(t *testing.T, c, standby *pgtest.Cluster) {
	primary, follower := openAdmin(t, c.DSN("")), openAdmin(t, standby.DSN(""))
	defer func() { _, _ = primary.Close(), follower.Close() }()
	var end string
	require.NoError(t, primary.QueryRow(`SELECT pg_current_wal_flush_lsn()`).Scan(&end))
	require.Eventually(t, func() (there bool) {
		return follower.QueryRow(`SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, end).Scan(&there) == nil && there
	}, 20*time.Second, 20*time.Millisecond)
	for _, statement := range []string{`ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'`, `SELECT pg_reload_conf()`} {
		_, err := follower.Exec(statement)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		var n int
		return primary.QueryRow(`SELECT count(*) FROM pg_stat_replication`).Scan(&n) == nil && n == 0
	}, 20*time.Second, 20*time.Millisecond)
}

// After a failover to a standby that lacks the last commits, the batches that these commits
// finished are open again, and the store finds them although they stand before its remembered
// position of the lane.
func TestAnotherServerIsReadFromTheBeginning(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, "fsync=off")
	standby := c.Standby(t, "")
	db, to := poolOfSwitchedServer(t, c)
	st, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	learnPosition(t, st, "s", "before")
	require.NoError(t, st.Add(t.Context(), newBatch("s", "first"), newBatch("s", "second")))
	cutStandbyOff(t, c, standby)
	learnPosition(t, st, "s", "lost")
	require.NoError(t, c.Crash())
	require.NoError(t, standby.Promote())
	to(standby)
	require.Eventually(t, func() bool { return db.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, st.Add(t.Context(), newBatch("s", "last")))
	_, err = claimOne(t, st, "s")
	require.ErrorIs(t, err, postgres.ErrLostCommits)
	assert.Equal(t, batch.ID("first"), claimFirst(t, st, "s"))
}

// Behind a batch that stays in flight, and that other batches may pass, a claim reads no finished
// rows, however many of them the server cannot clean up.
func TestAClaimBehindAStuckBatch(t *testing.T) {
	t.Parallel()
	v := &deliverer{bufferCounter: newBufferCounter(t), ctx: t.Context(), lanes: []batch.ServiceID{"lane"}}
	add := func(n int, writes string) {
		bs := make([]batch.Batch, n)
		for i := range bs {
			bs[i] = newBatch("lane", fmt.Sprintf("%s%d", writes, v.addedCount))
			bs[i].Footprint.Writes = []string{fmt.Sprintf("%s%06d", writes, v.addedCount)}
			v.addedCount++
		}
		require.NoError(t, v.st.Add(t.Context(), bs...))
	}
	pass := func(n int) (buffers int64) {
		add(n, "bb")
		var claims []store.Claim
		buffers = v.buffersOf(func() { claims = v.claim(n) })
		v.record(claims, batch.BySubmitter, store.Accepted)
		v.record(claims, batch.ByMonitor, store.IsCommitted)
		return buffers
	}
	least := func() int64 {
		n := pass(8)
		for range 5 {
			time.Sleep(150 * time.Millisecond) // the store learns the position in this time
			n = min(n, pass(8))
		}
		return n
	}
	add(1, "aa")
	v.record(v.claim(1), batch.BySubmitter, store.Accepted)
	time.Sleep(1100 * time.Millisecond) // keys that are closer are read together
	pass(100)
	v.vacuum()
	without := least()
	end := v.holdSnapshot()
	defer end()
	for range 15 {
		pass(100)
	}
	held := least()
	t.Logf("%d buffers, %d after 1,500 batches under a held snapshot", without, held)
	assert.LessOrEqual(t, held, 2*without+maxMoreBuffers)
}
