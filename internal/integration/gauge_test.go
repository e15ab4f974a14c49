package integration

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// bufferCounter counts the buffers of tables and indexes that a call of a store reads, on an
// otherwise idle server: autovacuum is off, and the store has one connection.
type bufferCounter struct {
	t     testing.TB
	db    *sql.DB // the store's connection
	admin *sql.DB
	st    *postgres.Store
	dsn   string
}

func newBufferCounter(t testing.TB) *bufferCounter {
	t.Helper()
	c := pgtest.NewCluster(t, "autovacuum=off", "fsync=off", "full_page_writes=off", "shared_buffers=128MB")
	g := &bufferCounter{t: t, db: openDSN(t, pgx, c.DSN("")), admin: openAdmin(t, c.DSN("")), dsn: c.DSN("")}
	t.Cleanup(func() { _ = g.admin.Close() })
	g.db.SetMaxOpenConns(1)
	var err error
	g.st, err = postgres.New(g.db, nil)
	require.NoError(t, err)
	require.NoError(t, g.st.Migrate(t.Context()))
	return g
}

// buffers returns the number of buffers that all connections have found or read so far. The server
// adds the numbers of a connection up to a second after it became idle, or at once on request
// (since PostgreSQL 15). So both connections request it: otherwise what the test itself wrote
// before would count later, as a read of the store.
func (g *bufferCounter) buffers() (n int64) {
	g.t.Helper()
	for _, db := range []*sql.DB{g.db, g.admin} {
		_, err := db.ExecContext(g.t.Context(), `SELECT pg_stat_force_next_flush()`)
		require.NoError(g.t, err)
	}
	require.NoError(g.t, g.admin.QueryRowContext(g.t.Context(), `SELECT coalesce(sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)
		+ coalesce(toast_blks_read + toast_blks_hit, 0) + coalesce(tidx_blks_read + tidx_blks_hit, 0)), 0)::bigint FROM pg_statio_user_tables`).Scan(&n))
	return n
}

// buffersOf returns the buffers that one call reads.
func (g *bufferCounter) buffersOf(call func()) int64 {
	g.t.Helper()
	before := g.buffers()
	call()
	return g.buffers() - before
}

// vacuum removes the rows that no snapshot can see.
func (g *bufferCounter) vacuum() {
	g.t.Helper()
	_, err := g.admin.ExecContext(g.t.Context(), `VACUUM ANALYZE`)
	require.NoError(g.t, err)
}

// holdSnapshot opens a snapshot in a transaction that stays open until end is called.
func (g *bufferCounter) holdSnapshot() (end func()) {
	g.t.Helper()
	tx, err := g.admin.BeginTx(g.t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	require.NoError(g.t, err)
	_, err = tx.ExecContext(g.t.Context(), `SELECT 1 FROM pg_class LIMIT 1`)
	require.NoError(g.t, err)
	return func() { require.NoError(g.t, tx.Rollback()) }
}

// deliverer delivers batches through a store.
type deliverer struct {
	*bufferCounter
	ctx        context.Context
	lanes      []batch.ServiceID
	addedCount int
	finalKeys  []batch.Key // of the batches that became final last
}

func (v *deliverer) add(n int) {
	v.t.Helper()
	bs := make([]batch.Batch, n)
	for i := range bs {
		bs[i] = batch.Batch{ID: batch.ID(fmt.Sprintf("%064x", v.addedCount)), Service: v.lanes[v.addedCount%len(v.lanes)], Payload: []byte("payload")}
		v.addedCount++
	}
	require.NoError(v.t, v.st.Add(v.ctx, bs...))
}

// claim claims n batches, in the order of their lanes.
func (v *deliverer) claim(n int) (claims []store.Claim) {
	v.t.Helper()
	got, err := v.st.Claim(v.ctx, store.ClaimQuery{Lanes: v.lanes, Limit: n, Window: n, TTL: time.Minute}, func(l batch.Lane) []batch.Run {
		var run batch.Run
		for i, b := range l.Batches {
			if b.Ready && len(run) < n/len(v.lanes) {
				run = append(run, i)
			}
		}
		return []batch.Run{run}
	})
	require.NoError(v.t, err)
	for _, r := range got.Runs {
		claims = append(claims, r.Batches...)
	}
	require.Len(v.t, claims, n)
	return claims
}

// record records one finding about all claims.
func (v *deliverer) record(claims []store.Claim, by batch.Actor, finding store.Finding) {
	v.t.Helper()
	os := make([]store.Outcome, len(claims))
	for i, c := range claims {
		os[i] = store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, By: by, Finding: finding, Attempt: c.Attempt}
		if finding == store.IsCommitted {
			os[i].Attempt = 0
		}
	}
	applied, err := v.st.Record(v.ctx, os)
	require.NoError(v.t, err)
	v.finalKeys = v.finalKeys[:0]
	for i, a := range applied {
		require.Equal(v.t, store.Written, a.Result, "%v", a.Err)
		claims[i].Version, claims[i].Was = a.Row.Version, nil
		v.finalKeys = append(v.finalKeys, a.Key)
	}
}

// deliverAndPrune delivers n batches, and then prunes them.
func (v *deliverer) deliverAndPrune(n int) {
	v.t.Helper()
	group := 100 * len(v.lanes)
	for done := 0; done < n; done += group {
		v.add(group)
		claims := v.claim(group)
		v.record(claims, batch.BySubmitter, store.Accepted)
		v.record(claims, batch.ByMonitor, store.IsCommitted)
		v.prune(group)
	}
}

func (v *deliverer) prune(n int) {
	v.t.Helper()
	p, err := v.st.Prune(v.ctx, store.PruneQuery{Limit: n})
	require.NoError(v.t, err)
	require.Equal(v.t, n, p.Batches)
}
