package sqlite

import (
	"context"
	"fmt"
)

// cells are the values of one row, taken one after the other in the order of the statement's
// columns. That costs a third of scanning into the fields of a struct by their names: the
// statements of every round read their rows like this.
type cells struct {
	vals, dest []any // dest are pointers to vals
	at         int
	err        error // the first value of a wrong type
}

func newCells(columns int) *cells {
	c := &cells{vals: make([]any, columns), dest: make([]any, columns)}
	for i := range c.vals {
		c.dest[i] = &c.vals[i]
	}
	return c
}

func (c *cells) next() any {
	if c.at >= len(c.vals) {
		c.mismatch("a column")
		return nil
	}
	c.at++
	return c.vals[c.at-1]
}

func (c *cells) mismatch(want string) {
	if c.err != nil {
		return
	}
	if c.at == 0 || c.at > len(c.vals) {
		c.err = fmt.Errorf("%d columns, want more", len(c.vals))
		return
	}
	c.err = fmt.Errorf("column %d is a %T, want %s", c.at, c.vals[c.at-1], want)
}

func (c *cells) int64() int64 {
	n, ok := c.next().(int64)
	if !ok {
		c.mismatch("an integer")
	}
	return n
}

func (c *cells) int() int { return int(c.int64()) }

func (c *cells) bool() bool { return c.int64() != 0 }

func (c *cells) text() string {
	text, null := c.textOrNull()
	if null {
		c.mismatch("a text")
	}
	return text
}

func (c *cells) textOrNull() (text string, null bool) {
	switch v := c.next().(type) {
	case nil:
		return "", true
	case string:
		return v, false
	case []byte:
		return string(v), false
	}
	c.mismatch("a text or NULL")
	return "", false
}

// blob is nil for NULL, and for an empty blob.
func (c *cells) blob() []byte {
	switch v := c.next().(type) {
	case nil:
	case []byte:
		if len(v) > 0 {
			return v
		}
	default:
		c.mismatch("a blob or NULL")
	}
	return nil
}

// each runs a statement and reads its rows one by one.
func (t *session) each(ctx context.Context, read func(c *cells), query string, args ...any) error {
	s, err := t.stmt(ctx, query) //nolint:sqlclosecheck // the session closes it
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error that matters
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	c := newCells(len(columns))
	for rows.Next() {
		if err := rows.Scan(c.dest...); err != nil {
			return err
		}
		c.at = 0
		if read(c); c.err != nil {
			return c.err
		}
	}
	return rows.Err()
}

// one is each for at most one row, and reports whether there was a row.
func (t *session) one(ctx context.Context, read func(c *cells), query string, args ...any) (found bool, err error) {
	err = t.each(ctx, func(c *cells) { found = true; read(c) }, query, args...)
	return found, err
}
