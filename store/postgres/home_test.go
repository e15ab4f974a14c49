package postgres

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// unreachable is a pool from which the store gets no connection.
type unreachable struct{ *script }

func (unreachable) Acquire(context.Context) (conns.Conn, error) {
	return nil, errors.New("all connections are in use")
}

// An application's transaction is accepted if the store's own connections lead to the same
// database, also after a restart has changed the location, and if the store cannot find out.
func TestWhoseTransactionIsTaken(t *testing.T) {
	own := location{"1700000000.5", "own"}
	elsewhere := location{"1700000000.5", "other"}
	before := location{"1600000000", "own"}
	for name, c := range map[string]struct {
		known   *location
		met     location
		single  bool
		noneNow bool // true if the store gets no connection
		input   bool // true if a *batch.InputError is expected
		refused bool
		after   *location
	}{
		"the first call":                           {met: own, after: &own},
		"the first call, elsewhere":                {met: elsewhere, input: true, refused: true, after: &own},
		"the first call, all connections in use":   {met: elsewhere, noneNow: true},
		"the first call, one connection":           {met: elsewhere, single: true},
		"known":                                    {known: &own, met: own, noneNow: true, after: &own},
		"elsewhere":                                {known: &own, met: elsewhere, input: true, refused: true, after: &own},
		"elsewhere, all connections in use":        {known: &own, met: elsewhere, noneNow: true, refused: true, after: &own},
		"restarted":                                {known: &before, met: own, after: &own},
		"restarted, the only connection is in use": {known: &before, met: own, noneNow: true, single: true},
	} {
		t.Run(name, func(t *testing.T) {
			var pool conns.Pool = &script{database: own.database, single: c.single}
			if c.noneNow {
				pool = unreachable{&script{single: c.single}}
			}
			s, _, err := Over(pool, nil)
			require.NoError(t, err)
			soon := time.Now().Add(time.Minute)
			s.checked.Store(&soon)
			s.home.at.Store(c.known)
			tx := &scriptConn{s: &script{database: c.met.database, server: c.met.server, answers: map[string][][]any{"ON CONFLICT": {{int64(1)}}}}}
			err = s.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: "b", Payload: []byte("b")})
			var bad *batch.InputError
			assert.Equal(t, c.input, errors.As(err, &bad), err)
			assert.Equal(t, c.refused, err != nil, err)
			assert.Equal(t, c.after, s.home.at.Load())
			if c.input {
				assert.Contains(t, err.Error(), "database other")
				assert.Contains(t, err.Error(), "2023-11-14T22:13:20Z")
			}
		})
	}
}

// crowded is a pool whose connections are all in use for a while.
type crowded struct {
	*script
	full bool
	asks int
}

func (c *crowded) Acquire(ctx context.Context) (conns.Conn, error) {
	if c.asks++; c.full {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.script.Acquire(ctx)
}

// Where the application's transactions have all connections at the start, an addition waits for a
// second at most, and others of the next minute not at all. Then the store looks again: a process
// that calls nothing else would take transactions of another database for ever.
func TestAFullPoolAtTheStartIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &crowded{script: &script{database: "own"}, full: true}
		s, _, err := Over(pool, nil)
		require.NoError(t, err)
		soon := time.Now().Add(time.Hour)
		s.checked.Store(&soon)
		add := func(id batch.ID) (err error, took time.Duration) {
			begun := time.Now()
			tx := &scriptConn{s: &script{database: "other", answers: map[string][][]any{"ON CONFLICT": {{int64(1)}}}}}
			err = s.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: id, Payload: []byte("b")})
			return err, time.Since(begun)
		}
		err, took := add("a")
		require.NoError(t, err)
		assert.Equal(t, lookHomeLimit, took)
		pool.full = false
		asked := pool.asks
		for range 59 {
			err, took = add("b")
			require.NoError(t, err)
			assert.Zero(t, took)
			time.Sleep(time.Second)
		}
		assert.Equal(t, asked, pool.asks, "no look")
		time.Sleep(time.Second)
		err, _ = add("c")
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	})
}
