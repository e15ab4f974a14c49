package sqlite

import (
	"database/sql"
	"sync"
)

// writerConn is a writer's connection, with its prepared statements.
type writerConn struct {
	*session
	conn      *sql.Conn
	timesLeft int // how many times it was left to another
}

// maxTimesLeft is how many times in a row a connection is left to another writer. Only a
// connection that goes back to the pool learns that the pool was closed, or that it is too
// old.
const maxTimesLeft = 100

// close gives the connection back to the pool; nothing can be lost by now.
func (w *writerConn) close() {
	w.session.close()
	_ = w.conn.Close()
}

// writerHandover is the connection that a writer leaves to the next writer, if one waits. Another
// connection would be worse: SQLite drops all pages that a connection has read once another
// connection writes, and statements are prepared on one connection.
type writerHandover struct {
	mu      sync.Mutex
	waiting int // writers that wait for their turn
	conn    *writerConn
}

// wait announces a writer, before it waits for its turn.
func (b *writerHandover) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
}

// take gives a writer whose turn it is the connection left to it, or nil.
func (b *writerHandover) take() *writerConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
	w := b.conn
	b.conn = nil
	return w
}

// forgo is for a writer that waits no more: a connection that nobody else waits for goes back.
func (b *writerHandover) forgo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting--; b.waiting == 0 && b.conn != nil {
		b.conn.close()
		b.conn = nil
	}
}

// pass leaves w to the next writer, and reports whether there is one.
func (b *writerHandover) pass(w *writerConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 || w.timesLeft == maxTimesLeft {
		return false
	}
	w.timesLeft++
	b.conn = w
	return true
}
