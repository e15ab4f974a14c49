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

// unreachablePool is a pool from which the store gets no connection.
type unreachablePool struct{ *scriptedServer }

func (unreachablePool) Acquire(context.Context) (conns.Conn, error) {
	return nil, errors.New("all connections are in use")
}

// An application's transaction is accepted if the store's own connections lead to the same
// database, also after a restart has changed the location, and if the store cannot find out.
func TestWhoseTransactionIsTaken(t *testing.T) {
	own := location{"1700000000.5", "own"}
	elsewhere := location{"1700000000.5", "other"}
	before := location{"1600000000", "own"}
	for name, c := range map[string]struct {
		knownBefore  *location
		met          location
		hasOneConn   bool
		hasNoConn    bool // true if the store gets no connection
		isInputError bool // true if a *batch.InputError is expected
		isRefused    bool
		knownAfter   *location
	}{
		"the first call":                           {met: own, knownAfter: &own},
		"the first call, elsewhere":                {met: elsewhere, isInputError: true, isRefused: true, knownAfter: &own},
		"the first call, all connections in use":   {met: elsewhere, hasNoConn: true},
		"the first call, one connection":           {met: elsewhere, hasOneConn: true},
		"known":                                    {knownBefore: &own, met: own, hasNoConn: true, knownAfter: &own},
		"elsewhere":                                {knownBefore: &own, met: elsewhere, isInputError: true, isRefused: true, knownAfter: &own},
		"elsewhere, all connections in use":        {knownBefore: &own, met: elsewhere, hasNoConn: true, isRefused: true, knownAfter: &own},
		"restarted":                                {knownBefore: &before, met: own, knownAfter: &own},
		"restarted, the only connection is in use": {knownBefore: &before, met: own, hasNoConn: true, hasOneConn: true},
	} {
		t.Run(name, func(t *testing.T) {
			var pool conns.Pool = &scriptedServer{database: own.database, hasOneConn: c.hasOneConn}
			if c.hasNoConn {
				pool = unreachablePool{&scriptedServer{hasOneConn: c.hasOneConn}}
			}
			s, _, err := Over(pool, nil)
			require.NoError(t, err)
			soon := time.Now().Add(time.Minute)
			s.schemaCheckedUntil.Store(&soon)
			s.ownDatabase.location.Store(c.knownBefore)
			tx := &scriptConn{server: &scriptedServer{database: c.met.database, serverStart: c.met.server, answers: map[string][][]any{"ON CONFLICT": {{int64(1)}}}}}
			err = s.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: "b", Payload: []byte("b")})
			var inputErr *batch.InputError
			assert.Equal(t, c.isInputError, errors.As(err, &inputErr), err)
			assert.Equal(t, c.isRefused, err != nil, err)
			assert.Equal(t, c.knownAfter, s.ownDatabase.location.Load())
			if c.isInputError {
				assert.Contains(t, err.Error(), "database other")
				assert.Contains(t, err.Error(), "2023-11-14T22:13:20Z")
			}
		})
	}
}

// crowdedPool is a pool whose connections are all in use for a while.
type crowdedPool struct {
	*scriptedServer
	isFull       bool
	acquireCalls int
}

func (c *crowdedPool) Acquire(ctx context.Context) (conns.Conn, error) {
	if c.acquireCalls++; c.isFull {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.scriptedServer.Acquire(ctx)
}

// Where the application's transactions have all connections at the start, an addition waits for a
// second at most, and others of the next minute not at all. Then the store looks again: a process
// that calls nothing else would take transactions of another database for ever.
func TestAFullPoolAtTheStartIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &crowdedPool{scriptedServer: &scriptedServer{database: "own"}, isFull: true}
		s, _, err := Over(pool, nil)
		require.NoError(t, err)
		soon := time.Now().Add(time.Hour)
		s.schemaCheckedUntil.Store(&soon)
		add := func(id batch.ID) (took time.Duration, err error) {
			begun := time.Now()
			tx := &scriptConn{server: &scriptedServer{database: "other", answers: map[string][][]any{"ON CONFLICT": {{int64(1)}}}}}
			err = s.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: id, Payload: []byte("b")})
			return time.Since(begun), err
		}
		took, err := add("a")
		require.NoError(t, err)
		assert.Equal(t, ownDatabaseLookLimit, took)
		pool.isFull = false
		asked := pool.acquireCalls
		for range 59 {
			took, err = add("b")
			require.NoError(t, err)
			assert.Zero(t, took)
			time.Sleep(time.Second)
		}
		assert.Equal(t, asked, pool.acquireCalls, "no look")
		time.Sleep(time.Second)
		_, err = add("c")
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	})
}
