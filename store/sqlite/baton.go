package sqlite

import (
	"database/sql"
	"sync"
)

// writing is a writer's connection, with its prepared statements.
type writing struct {
	*session
	conn *sql.Conn
	left int // how many times it was left to another
}

// mostLeft is how many times in a row a connection is left to another writer. Only a
// connection that goes back to the pool learns that the pool was closed, or that it is too
// old.
const mostLeft = 100

// close gives the connection back to the pool; nothing can be lost by now.
func (w *writing) close() {
	w.session.close()
	_ = w.conn.Close()
}

// baton is the connection that a writer leaves to the next writer, if one waits. Another
// connection would be worse: SQLite drops all pages that a connection has read once another
// connection writes, and statements are prepared on one connection.
type baton struct {
	mu      sync.Mutex
	waiting int // writers that wait for their turn
	kept    *writing
}

// wait announces a writer, before it waits for its turn.
func (b *baton) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
}

// take gives a writer whose turn it is the connection left to it, or nil.
func (b *baton) take() *writing {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
	w := b.kept
	b.kept = nil
	return w
}

// forgo is for a writer that waits no more: a connection that nobody else waits for goes back.
func (b *baton) forgo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting--; b.waiting == 0 && b.kept != nil {
		b.kept.close()
		b.kept = nil
	}
}

// pass leaves w to the next writer, and reports whether there is one.
func (b *baton) pass(w *writing) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 || w.left == mostLeft {
		return false
	}
	w.left++
	b.kept = w
	return true
}
