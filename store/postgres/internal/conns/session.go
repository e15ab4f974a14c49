package conns

import (
	"reflect"
	"sync"
	"time"
)

// Session is what a store knows of one connection, for as long as the connection lives. Only the caller
// who has the connection uses it.
type Session struct {
	Since   time.Time // when the store got the connection for the first time
	Looked  time.Time // when somebody looked at the connection's settings last; zero: nobody has
	Standby bool      // the server only followed another one then
}

// Sessions has the session of each open connection of a pool. Its methods may be called concurrently.
type Sessions struct {
	mu sync.Mutex
	of map[any]*Session
}

// Of returns the session of a connection, which is new where the connection is. open returns about how
// many connections the pool has. A connection that cannot be told from others is always new.
func (s *Sessions) Of(connection any, open func() int) *Session {
	if t := reflect.TypeOf(connection); t == nil || !t.Comparable() {
		return &Session{Since: time.Now()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.of[connection]; known != nil {
		return known
	}
	if s.of == nil || len(s.of) > 2*open()+16 { // most of them are closed; the others begin anew
		s.of = map[any]*Session{}
	}
	is := &Session{Since: time.Now()}
	s.of[connection] = is
	return is
}
