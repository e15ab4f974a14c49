package native

import (
	"context"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Copy implements [conns.Copier].
func (c *conn) Copy(ctx context.Context, text string, data io.Reader) error {
	if c.unsentBegin != nil {
		begun, err := c.send(ctx, nil)
		if err == nil {
			err = c.readEnd(begun)
		}
		if err != nil {
			return err
		}
	}
	return copyFrom(ctx, c.poolConn.Conn(), c.pool.tracer, text, data)
}

func copyFrom(ctx context.Context, on *pgx.Conn, tracer pgx.QueryTracer, text string, data io.Reader) error {
	r := &copySource{data: data}
	defer r.end()
	return traced(ctx, on, tracer, text, func(ctx context.Context) error {
		_, err := on.PgConn().CopyFrom(ctx, r, text)
		return err
	})
}

// copySource is the reader of a COPY until the COPY has returned. pgx may go on reading for a
// moment after it has found the connection broken.
type copySource struct {
	mu   sync.Mutex
	data io.Reader // nil once the COPY has returned
}

// Read implements io.Reader.
func (u *copySource) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.data == nil {
		return 0, io.ErrClosedPipe
	}
	return u.data.Read(p)
}

func (u *copySource) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.data = nil
}
