package conns

import (
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Session is what a store knows about one connection, for as long as the connection is open. Only
// the caller who has the connection uses it.
type Session struct {
	Since   time.Time // when the store got the connection for the first time
	Looked  time.Time // when the store last checked the connection's settings; zero means that a check is due
	Standby bool      // true if the server was a standby at that time
	Server  string    // the start time of the server to which the connection led at that time
}

// Sessions has the Session of each open connection of a pool. Its method may be called
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
