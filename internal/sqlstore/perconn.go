package sqlstore

import (
	"reflect"
	"sync"
)

// PerConn keeps a value for each open connection of a pool, for as long as the connection lives.
// Its method may be called concurrently; a value is for the caller who has the connection.
type PerConn[T any] struct {
	mu     sync.Mutex
	values map[any]*T
}

// Of returns the value of a connection, which is zero where the connection is new. open returns
// about how many connections the pool has. A connection that cannot be told from others is always
// new.
func (p *PerConn[T]) Of(connection any, open func() int) *T {
	if t := reflect.TypeOf(connection); t == nil || !t.Comparable() {
		return new(T)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.values[connection]; known != nil {
		return known
	}
	if p.values == nil || len(p.values) > 2*open()+16 { // most of them are closed; the others begin anew
		p.values = map[any]*T{}
	}
	is := new(T)
	p.values[connection] = is
	return is
}
