package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/moving"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// schemaMove is an application whose schema moves from one server to another. Processes with
// either data source name run during the whole move.
type schemaMove struct {
	*testing.T
	schema string
	dsns   [2]string // the old server's, and the new one's
	pools  [2]*pgxpool.Pool
	stores [2]*native.Store
	ledger *memory.Ledger

	mu            sync.Mutex
	acknowledged  map[batch.ServiceID][]batch.ID // acknowledged batches
	refusedKeys   []batch.Key                    // batches whose Add returned an error
	addedInTx     int                            // number of acknowledged batches added in a transaction
	callsByServer [2]int                         // calls that succeeded on each server
}

func newSchemaMove(t *testing.T) *schemaMove {
	r := &schemaMove{
		T: t, schema: fmt.Sprintf("removal%d", time.Now().UnixNano()), acknowledged: map[batch.ServiceID][]batch.ID{},
		dsns: [2]string{pgtest.Start(t), pgtest.NewCluster(t).DSN("")},
	}
	traits := memory.Unforgiving(10 * time.Millisecond)
	r.ledger = memory.New(&memory.Options{Traits: &traits, CommitAfter: 2 * time.Millisecond})
	for i, dsn := range r.dsns {
		r.pools[i] = shardPool(t, dsn)
		var err error
		r.stores[i], err = native.New(r.pools[i], &postgres.Options{Schema: r.schema})
		require.NoError(t, err)
		// The application's own rows are in another schema.
		r.execOn(i, `CREATE SCHEMA own_`+r.schema, `CREATE TABLE own_`+r.schema+`.transfers (id text PRIMARY KEY)`)
	}
	t.Cleanup(func() {
		for _, name := range []string{r.schema, r.schema + "_moved", "own_" + r.schema} {
			_, err := r.pools[0].Exec(context.WithoutCancel(t.Context()), `DROP SCHEMA IF EXISTS `+name+` CASCADE`)
			assert.NoError(t, err)
		}
	})
	require.NoError(t, r.stores[0].Migrate(t.Context()))
	return r
}

func (r *schemaMove) execOn(server int, statements ...string) {
	r.Helper()
	for _, s := range statements {
		_, err := r.pools[server].Exec(r.Context(), s)
		require.NoError(r, err)
	}
}

// queryNumber returns the number that a query yields on a server.
func (r *schemaMove) queryNumber(server int, query string) (n int) {
	r.Helper()
	require.NoError(r, r.pools[server].QueryRow(r.Context(), query).Scan(&n))
	return n
}

// newMover returns a new process that moves the schema.
func (r *schemaMove) newMover() (m *moving.Move, end func()) {
	return r.newTalkingMover(func(string) {})
}

func (r *schemaMove) newTalkingMover(say func(string)) (m *moving.Move, end func()) {
	r.Helper()
	var pools [2]*pgxpool.Pool
	for i, dsn := range r.dsns {
		pool, err := pgxpool.New(r.Context(), dsn)
		require.NoError(r, err)
		pools[i] = pool
	}
	m, err := moving.New(pools[0], pools[1], postgres.Options{Schema: r.schema}, say)
	require.NoError(r, err)
	return m, func() {
		pools[0].Close()
		pools[1].Close()
	}
}

// doStep does one step in a process of its own.
func (r *schemaMove) doStep(ctx context.Context) (moving.Standing, error) {
	m, end := r.newMover()
	defer end()
	return m.Next(ctx)
}

// runRunners runs a Runner on one of the servers until ctx ends, and restarts it after each error,
// as a supervisor would.
func (r *schemaMove) runRunners(ctx context.Context, server int) error {
	for ctx.Err() == nil {
		run, err := dltbatch.New(r.stores[server], r.ledger, &dltbatch.Options{PollInterval: 10 * time.Millisecond, ScanInterval: 50 * time.Millisecond})
		if err != nil {
			return err
		}
		if err := run.Run(ctx); ctx.Err() == nil && !isSchemaGone(err) {
			return fmt.Errorf("the Runner of server %d: %w", server, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// isSchemaGone reports whether an error says that the schema is not on this server.
func isSchemaGone(err error) bool {
	if pg, is := errors.AsType[*pgconn.PgError](err); is && (pg.Code == "40P01" || pg.Code == "55P03") { // the transaction was rolled back
		return true
	}
	return errors.Is(err, store.ErrSchemaMoved) || errors.Is(err, store.ErrNotMigrated)
}

// addOne adds one batch on a server: in a call, or in a transaction of the application.
func (r *schemaMove) addOne(ctx context.Context, server int, b batch.Batch, inTx bool) error {
	if !inTx {
		return r.stores[server].Add(ctx, b)
	}
	return driverpgx.BeginFunc(ctx, r.pools[server], func(tx driverpgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO own_`+r.schema+`.transfers VALUES ($1)`, string(b.ID)); err != nil {
			return err
		}
		return r.stores[server].Tx(tx).Add(ctx, b)
	})
}

// addUntilMoved adds to a lane until the new server has taken some batches. After an error it
// changes to the other server and uses another batch, since the batch of the failed call must not
// be stored anywhere.
func (r *schemaMove) addUntilMoved(ctx context.Context, lane string) error {
	for i, server, late := 0, 0, 0; late < 5; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := newBatch(lane, fmt.Sprint(lane, " ", i))
		inTx := i%3 == 0
		err := r.addOne(ctx, server, b, inTx)
		r.mu.Lock()
		switch {
		case err == nil:
			r.acknowledged[b.Service] = append(r.acknowledged[b.Service], b.ID)
			r.callsByServer[server]++
			if inTx {
				r.addedInTx++
			}
			late += server
		case isSchemaGone(err):
			r.refusedKeys = append(r.refusedKeys, b.Key())
			server = 1 - server
		default:
			r.mu.Unlock()
			return fmt.Errorf("server %d: %w", server, err)
		}
		r.mu.Unlock()
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	return nil
}

// checkAllMoved checks the result after everything has moved: no batch is lost, executed twice or
// out of order, and no refused batch is stored.
func (r *schemaMove) checkAllMoved(server int) {
	r.Helper()
	ctx := r.Context()
	waitFor(r.T, func() bool {
		return r.queryNumber(server, `SELECT (SELECT count(*) FROM `+r.schema+`.waiting_batches) + (SELECT count(*) FROM `+r.schema+`.attempted_batches)`) == 0
	})
	require.NoError(r, r.ledger.Verify(r.acknowledged))
	var all int
	for service, ids := range r.acknowledged {
		assert.Equal(r, ids, r.ledger.Log(service), service)
		all += len(ids)
	}
	assert.Equal(r, all, r.queryNumber(server, `SELECT count(*) FROM `+r.schema+`.outcomes WHERE state = `+fmt.Sprint(int(batch.Committed))))
	assert.Equal(r, all, r.queryNumber(server, `SELECT count(*) FROM `+r.schema+`.batches`))
	for _, key := range r.refusedKeys {
		_, err := r.stores[server].Get(ctx, key)
		require.ErrorIs(r, err, batch.ErrNotFound, key)
	}
	own := `SELECT count(*) FROM own_` + r.schema + `.transfers`
	assert.Equal(r, r.addedInTx, r.queryNumber(0, own)+r.queryNumber(1, own))
}

// A schema moves under load. Each step is interrupted at some point, and another process completes
// it. Adders and Runners with both data source names run all the time.
func TestMovingUnderLoad(t *testing.T) {
	t.Parallel()
	r := newSchemaMove(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var runners, adders errgroup.Group
	for server := range 2 {
		runners.Go(func() error { return r.runRunners(ctx, server) })
	}
	for l := range 6 {
		adders.Go(func() error { return r.addUntilMoved(ctx, fmt.Sprint("lane ", l)) })
	}
	waitFor(t, func() bool { return r.queryNumber(0, `SELECT count(*) FROM `+r.schema+`.outcomes`) > 50 })
	var seen []moving.Step
	var last moving.Standing
	for last.Next != moving.StepDone {
		hurried, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
		s, err := r.doStep(hurried)
		cancel()
		if err != nil {
			require.Error(t, hurried.Err(), "%v", err)
			s, err = r.doStep(ctx)
		}
		require.NoError(t, err, "after %q", last.Next)
		require.True(t, last.Move == "" || s.Move == last.Move, "it is one move")
		last = s
		seen = append(seen, s.Next)
	}
	t.Logf("the lanes stood for %s; steps %q", last.StandingTime, seen)
	require.NoError(t, adders.Wait())
	r.checkAllMoved(1)
	stop()
	require.NoError(t, runners.Wait())
	assert.Positive(t, r.callsByServer[0])
	assert.Positive(t, r.callsByServer[1])
	assert.Positive(t, last.StandingTime)
	t.Logf("%d calls on the old server, %d on the new one, %d refused", r.callsByServer[0], r.callsByServer[1], len(r.refusedKeys))

	// The old server never serves the schema again, for any process, and the new one has no record
	// of a move.
	require.ErrorIs(t, r.stores[0].Migrate(t.Context()), store.ErrSchemaMoved)
	fresh, err := native.New(r.pools[0], &postgres.Options{Schema: r.schema})
	require.NoError(t, err)
	require.ErrorIs(t, fresh.Migrate(t.Context()), store.ErrSchemaMoved)
	require.ErrorIs(t, fresh.Add(t.Context(), newBatch("lane 0", "late")), store.ErrSchemaMoved)
	assert.Zero(t, r.queryNumber(0, `SELECT count(*) FROM pg_tables WHERE schemaname = '`+r.schema+`' AND tablename <> 'moved'`))
	assert.Zero(t, r.queryNumber(1, `SELECT count(*) FROM pg_tables WHERE schemaname = '`+r.schema+`' AND tablename = 'moved'`))
	m, end := r.newMover()
	defer end()
	require.ErrorIs(t, m.Back(t.Context()), moving.ErrRefused)
}

// checkPauseAfterBack takes a move back while another process is about to pause everything, and
// checks that nothing stays paused.
func (r *schemaMove) checkPauseAfterBack() {
	r.Helper()
	ctx := r.Context()
	m, end := r.newMover()
	defer end()
	for s := (moving.Standing{}); s.Next != moving.StepPause; {
		var err error
		s, err = m.Next(ctx)
		require.NoError(r, err)
	}
	held, err := r.pools[0].Begin(ctx)
	require.NoError(r, err)
	_, err = held.Exec(ctx, `LOCK TABLE `+r.schema+`.controls IN SHARE ROW EXCLUSIVE MODE`)
	require.NoError(r, err)
	var both sync.WaitGroup
	both.Go(func() { _, _ = m.Next(ctx) }) // the move may be over meanwhile
	waitFor(r.T, func() bool {
		return r.queryNumber(0, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '`+r.schema+`.controls'::regclass`) > 0
	})
	back := make(chan struct{})
	both.Go(func() {
		defer close(back)
		other, ends := r.newMover()
		defer ends()
		for err := other.Back(ctx); err != nil && ctx.Err() == nil; err = other.Back(ctx) {
			time.Sleep(10 * time.Millisecond) // the other process holds the mark
		}
	})
	select {
	case <-back:
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(r, held.Rollback(ctx))
	both.Wait()
	c, err := r.stores[0].Control(ctx, batch.Everything())
	require.NoError(r, err)
	assert.True(r, c.PausedAt.IsZero(), "by %s", c.PausedBy)
}

// A move is taken back after each step before the old server is given up, and the old server works
// as before. Afterwards the move is completed: the rights of other roles are as they were, and a
// person's pause stays.
func TestMovingBack(t *testing.T) {
	t.Parallel()
	r := newSchemaMove(t)
	ctx := t.Context()
	role := r.schema + "_role"
	for i := range 2 {
		r.execOn(i, `CREATE ROLE `+role)
	}
	t.Cleanup(func() {
		_, err := r.pools[0].Exec(context.WithoutCancel(ctx), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		assert.NoError(t, err)
	})
	r.execOn(0, `GRANT USAGE ON SCHEMA `+r.schema+` TO `+role, `GRANT SELECT ON ALL TABLES IN SCHEMA `+r.schema+` TO `+role)
	all := func() (standing moving.Standing) {
		m, end := r.newMover()
		defer end()
		for standing.Next != moving.StepDone {
			var err error
			standing, err = m.Next(ctx)
			require.NoError(t, err)
		}
		return standing
	}
	clean := `SELECT count(*) FROM pg_tables WHERE schemaname IN ('` + r.schema + `_arriving', '` + r.schema + `_moved') OR schemaname = '` + r.schema + `' AND tablename = 'moved'`
	added := 0
	for next, steps := moving.Step(""), 1; next != moving.StepLetGo; steps++ {
		m, end := r.newMover()
		for range steps {
			s, err := m.Next(ctx)
			require.NoError(t, err)
			require.True(t, s.Back, s.Next)
			next = s.Next
		}
		other, ends := r.newMover()
		require.NoError(t, other.Back(ctx), next)
		_, err := m.Next(ctx)
		require.ErrorIs(t, err, moving.ErrRefused, "who was carrying it out does not begin another")
		ends()
		end()
		c, err := r.stores[0].Control(ctx, batch.Everything())
		require.NoError(t, err)
		assert.True(t, c.PausedAt.IsZero(), "it is resumed")
		assert.Zero(t, r.queryNumber(0, clean), next)
		assert.Zero(t, r.queryNumber(1, clean), next)
		added++
		require.NoError(t, r.stores[0].Add(ctx, newBatch("s", added)), next)
	}
	r.checkPauseAfterBack()
	_, _, err := r.stores[0].Steer(ctx, store.Steering{Scope: batch.Everything(), Action: batch.ActionPause, By: batch.By{Actor: "ada", Reason: "hers"}})
	require.NoError(t, err)
	assert.False(t, all().Back)
	c, err := r.stores[1].Control(ctx, batch.Everything())
	require.NoError(t, err)
	assert.Equal(t, "ada", c.PausedBy.Actor)
	assert.Equal(t, added, r.queryNumber(1, `SELECT count(*) FROM `+r.schema+`.waiting_batches`))
	r.execOn(1, `SET ROLE `+role+`; SELECT count(*) FROM `+r.schema+`.batches; RESET ROLE`)
	require.Equal(t, moving.StepDone, all().Next, "once more: nothing is left")
}

// The tables are removed only once the transactions that have touched them have ended and no claim
// may still be posting. A row that differs on the new server is found.
func TestMovingWaits(t *testing.T) {
	t.Parallel()
	r := newSchemaMove(t)
	ctx := t.Context()
	until := func(next moving.Step) {
		for s := (moving.Standing{}); s.Next != next; {
			var err error
			s, err = r.doStep(ctx)
			require.NoError(t, err)
		}
	}
	for range 1000 { // so that transaction numbers are higher on the old server
		r.execOn(0, `SELECT txid_current()`)
	}
	require.NoError(t, r.stores[0].Add(ctx, newBatch("claimed", "posting")))
	claimed, err := r.stores[0].Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"claimed"}, Limit: 1, Window: 10, TTL: time.Hour},
		func(l batch.Lane) []batch.Run { return []batch.Run{{0}} })
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 1)
	until(moving.StepRename)
	_, _, err = r.stores[0].Steer(ctx, store.Steering{Scope: batch.Everything(), Action: batch.ActionPause, By: batch.By{Actor: "ada", Reason: "hers"}})
	require.NoError(t, err)
	tx, err := r.pools[0].Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, r.stores[0].Tx(tx).Add(ctx, newBatch("s", "begun")))
	var said sync.Map
	m, end := r.newTalkingMover(func(text string) { said.Store(text, true) })
	defer end()
	renamed := make(chan error, 1)
	go func() {
		_, err := m.Next(ctx)
		renamed <- err
	}()
	says := func(part string) func() bool {
		return func() (found bool) {
			said.Range(func(text, _ any) bool {
				found = found || strings.Contains(text.(string), part)
				return true
			})
			return found
		}
	}
	waitFor(t, says("1 claims"))
	r.execOn(0, `UPDATE `+r.schema+`.attempted_batches SET claim_expires = 1`)
	waitFor(t, says("transactions that have begun: process "))
	require.NoError(t, r.stores[0].Add(ctx, newBatch("s", "later")), "others go on meanwhile")
	require.Empty(t, renamed)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-renamed)
	require.ErrorIs(t, r.stores[0].Add(ctx, newBatch("s", "too late")), store.ErrSchemaMoved)
	require.ErrorIs(t, r.stores[1].Add(ctx, newBatch("s", "too early")), store.ErrSchemaMoved)
	require.ErrorIs(t, r.stores[1].Migrate(ctx), store.ErrSchemaMoved)

	until(moving.StepCompare)
	r.execOn(1, `UPDATE `+r.schema+`_arriving.batches SET trace = NOT trace WHERE header_signature = 'begun'`)
	_, err = r.doStep(ctx)
	require.ErrorIs(t, err, moving.ErrRefused)
	require.ErrorContains(t, err, "batches is not the same on both servers")
	r.execOn(1, `UPDATE `+r.schema+`_arriving.batches SET trace = NOT trace WHERE header_signature = 'begun'`)
	until(moving.StepDone)
	for _, id := range []batch.ID{"begun", "later"} {
		rec, err := r.stores[1].Get(ctx, batch.Key{Service: "s", ID: id})
		require.NoError(t, err)
		assert.Equal(t, batch.Queued, rec.State)
	}
	c, err := r.stores[1].Control(ctx, batch.Everything())
	require.NoError(t, err)
	assert.Equal(t, "ada", c.PausedBy.Actor, "whoever pauses everything while the move has paused it finds it paused afterwards")
	rec, err := r.stores[1].Get(ctx, batch.Key{Service: "claimed", ID: "posting"})
	require.NoError(t, err)
	assert.Equal(t, batch.Submitting, rec.State, "the ledger is asked about it")
	assert.Zero(t, r.queryNumber(1, `SELECT count(*) FROM `+r.schema+`.attempted_batches WHERE made_by >= txid_current()`), "transactions have other numbers here")
	_, err = r.stores[1].Get(ctx, batch.Key{Service: "s", ID: "too late"})
	require.ErrorIs(t, err, batch.ErrNotFound)
}
