package native

import (
	"context"
	"io"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// Copy implements [conns.Copier].
func (c *conn) Copy(ctx context.Context, text string, data io.Reader) error {
	if c.begin != nil {
		begun, err := c.send(ctx, nil)
		if err == nil {
			err = c.answered(begun)
		}
		if err != nil {
			return err
		}
	}
	r := &untilCopied{r: data}
	defer r.end()
	return c.traced(ctx, text, func(ctx context.Context, on *pgconn.PgConn) error {
		_, err := on.CopyFrom(ctx, r, text)
		return err
	})
}

// untilCopied reads rows for a COPY until that has returned: pgx may go on reading for a moment
// after it has found the connection broken.
type untilCopied struct {
	mu sync.Mutex
	r  io.Reader // nil: the COPY has returned
}

// Read implements io.Reader.
func (u *untilCopied) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.r == nil {
		return 0, io.ErrClosedPipe
	}
	return u.r.Read(p)
}

func (u *untilCopied) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.r = nil
}
