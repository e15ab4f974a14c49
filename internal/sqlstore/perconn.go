package sqlstore

import (
	"reflect"
	"sync"
)

// PerConn keeps a value for each open connection of a pool, for as long as the connection is open.
// Its method may be called concurrently. Only the caller who has the connection may use its value.
type PerConn[T any] struct {
	mu     sync.Mutex
	values map[any]*T
}

// Of returns the value of a connection, which is zero if the connection is new. open returns about
// how many connections the pool has. A connection whose type cannot be compared always counts as
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
	if p.values == nil || len(p.values) > 2*open()+16 { // most of these connections are closed, so all values are dropped
		p.values = map[any]*T{}
	}
	is := new(T)
	p.values[connection] = is
	return is
}
