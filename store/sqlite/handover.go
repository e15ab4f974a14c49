package sqlite

import (
	"database/sql"
	"sync"
)

// writerConn is the connection of a writer, with its prepared statements.
type writerConn struct {
	*session
	conn      *sql.Conn
	timesLeft int // how many times in a row it was left to another writer
}

// maxTimesLeft is how many times in a row a connection is left to another writer. Only when a
// connection is returned to the pool is it closed if the pool was closed or the connection is too
// old.
const maxTimesLeft = 100

// close returns the connection to the pool. The transaction has ended, so an error does not
// matter.
func (w *writerConn) close() {
	w.session.close()
	_ = w.conn.Close()
}

// writerHandover passes the connection of a writer on to the next writer, if one waits. Another
// connection would cost more: when one connection writes, SQLite drops all pages that another has
// read, and statements are prepared on one connection.
type writerHandover struct {
	mu             sync.Mutex
	waitingWriters int // the number of writers that wait for their turn
	leftConn       *writerConn
}

// announce announces a writer before it waits for its turn.
func (b *writerHandover) announce() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waitingWriters++
}

// take returns the connection that was left to the writer whose turn it is, or nil.
func (b *writerHandover) take() *writerConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waitingWriters--
	w := b.leftConn
	b.leftConn = nil
	return w
}

// forgo ends the wait of a writer without a turn. It returns a connection that no other writer
// waits for to the pool.
func (b *writerHandover) forgo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waitingWriters--; b.waitingWriters == 0 && b.leftConn != nil {
		b.leftConn.close()
		b.leftConn = nil
	}
}

// pass leaves w to the next writer. It reports whether a writer waits.
func (b *writerHandover) pass(w *writerConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waitingWriters == 0 || w.timesLeft == maxTimesLeft {
		return false
	}
	w.timesLeft++
	b.leftConn = w
	return true
}
