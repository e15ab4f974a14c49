package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// location is the database that a connection leads to. No two servers have the same start time,
// and no two databases of a server have the same name.
type location struct{ server, database string }

// selectLocation selects a location, as two of the texts of [textRowsStatement].
const selectLocation = serverStartSQL + `, current_database()::text, `

// String names the location for people.
func (p location) String() string {
	since := p.server
	if sec, err := strconv.ParseFloat(p.server, 64); err == nil {
		since = time.UnixMicro(int64(sec * 1e6)).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("database %s of the server that was started at %s", p.database, since)
}

// ownDatabase is the database that the store's own connections lead to.
type ownDatabase struct {
	location     atomic.Pointer[location]  // nil while it is not known
	lookFailedAt atomic.Pointer[time.Time] // when the last look for an unknown location failed
}

// isLookDue reports whether this addition looks for an unknown location. At first each addition
// does, and after a failure one in each checkInterval. Calls of the store itself find the home
// sooner, but a process may make none.
func (h *ownDatabase) isLookDue() bool {
	last, now := h.lookFailedAt.Load(), time.Now()
	return last == nil || now.Sub(*last) >= checkInterval && h.lookFailedAt.CompareAndSwap(last, &now)
}

// ownDatabaseLookLimit bounds how long an addition in the application's transaction waits for a
// connection of the store, because transactions of the application may hold all connections of the
// pool.
const ownDatabaseLookLimit = time.Second

// checkOwnDatabase refuses a transaction of another database than the store's own. That database
// may have the same tables, and no Runner of this store would find the batches in it. A restart or
// a failover changes the location, too. So if the known location is another one, or none is known,
// the store looks where its own connections lead now. A pool with one connection, which the
// transaction may hold, cannot do that. If no location is known and the store gets no connection,
// the transaction is accepted.
func (s *Store) checkOwnDatabase(ctx context.Context, op string, met location) error {
	was := s.ownDatabase.location.Load()
	switch {
	case was != nil && *was == met:
		return nil
	case was == nil && (s.pool.Single() || !s.ownDatabase.isLookDue()):
		return nil
	}
	begun := time.Now()
	s.connsDoubtedAt.Store(&begun)
	soon, cancel := context.WithTimeout(ctx, ownDatabaseLookLimit)
	defer cancel()
	err := s.read(soon, op, func(context.Context, *session) error { return nil })
	now := s.ownDatabase.location.Load()
	switch {
	case now != nil && *now == met:
		return nil
	case err == nil && now != nil:
		return wrap(op, &batch.InputError{Field: "tx", Value: "a transaction in " + met.String(), Want: "a transaction in the store's own database: " + now.String()})
	case was == nil:
		s.ownDatabase.lookFailedAt.Store(new(time.Now()))
		return nil
	case s.pool.Single():
		s.ownDatabase.location.Store(nil)
		return nil
	}
	return wrap(op, fmt.Errorf("the transaction is in %s, and it is not known whether the store's own connections lead there, too: %w", met, err))
}
