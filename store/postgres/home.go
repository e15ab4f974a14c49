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

// selectLocation selects a location, as two of the texts of [eachText].
const selectLocation = started + `, current_database()::text, `

// String names the location for people.
func (p location) String() string {
	since := p.server
	if sec, err := strconv.ParseFloat(p.server, 64); err == nil {
		since = time.UnixMicro(int64(sec * 1e6)).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("database %s of the server that was started at %s", p.database, since)
}

// home is the database that the store's own connections lead to.
type home struct {
	at     atomic.Pointer[location]  // nil while it is not known
	failed atomic.Pointer[time.Time] // when the last look for an unknown home failed
}

// isLookDue reports whether this addition looks for an unknown home. At first each addition does,
// and after a failure one in each checkInterval. Calls of the store itself find the home sooner,
// but a process may make none.
func (h *home) isLookDue() bool {
	last, now := h.failed.Load(), time.Now()
	return last == nil || now.Sub(*last) >= checkInterval && h.failed.CompareAndSwap(last, &now)
}

// lookHomeLimit bounds how long an addition in the application's transaction waits for a
// connection of the store, because transactions of the application may hold all connections of the
// pool.
const lookHomeLimit = time.Second

// checkHome refuses a transaction of another database than the store's own. That database may have
// the same tables, and no Runner of this store would find the batches in it. A restart or a
// failover changes the location, too. So if the known location is another one, or none is known,
// the store looks where its own connections lead now. A pool with one connection, which the
// transaction may hold, cannot do that. If no location is known and the store gets no connection,
// the transaction is accepted.
func (s *Store) checkHome(ctx context.Context, op string, met location) error {
	was := s.home.at.Load()
	switch {
	case was != nil && *was == met:
		return nil
	case was == nil && (s.pool.Single() || !s.home.isLookDue()):
		return nil
	}
	begun := time.Now()
	s.doubted.Store(&begun)
	soon, cancel := context.WithTimeout(ctx, lookHomeLimit)
	defer cancel()
	err := s.read(soon, op, func(context.Context, *session) error { return nil })
	now := s.home.at.Load()
	switch {
	case now != nil && *now == met:
		return nil
	case err == nil && now != nil:
		return wrap(op, &batch.InputError{Field: "tx", Value: "a transaction in " + met.String(), Want: "a transaction in the store's own database: " + now.String()})
	case was == nil:
		s.home.failed.Store(new(time.Now()))
		return nil
	case s.pool.Single():
		s.home.at.Store(nil)
		return nil
	}
	return wrap(op, fmt.Errorf("the transaction is in %s, and it is not known whether the store's own connections lead there, too: %w", met, err))
}
