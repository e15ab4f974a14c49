package conns

import (
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Session is a store's knowledge of one connection, for as long as the connection lives. Only the
// caller who has the connection uses it.
type Session struct {
	Since   time.Time // when the store got the connection for the first time
	Looked  time.Time // when the connection's settings were checked last; zero: never
	Standby bool      // the server only followed another one then
	Server  string    // when the server was started that it led to then
}

// Sessions has the session of each open connection of a pool. Its method may be called
// concurrently.
type Sessions struct{ byConn sqlstore.PerConn[Session] }

// Of returns the session of a connection. open returns about how many connections the pool has.
func (s *Sessions) Of(connection any, open func() int) *Session {
	of := s.byConn.Of(connection, open)
	if of.Since.IsZero() {
		of.Since = time.Now()
	}
	return of
}
