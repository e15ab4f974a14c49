package native

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// session is one session on which several stores listen. It is open while one of them does.
type session struct {
	open func(context.Context) (*pgx.Conn, error)
	turn chan struct{} // capacity one: held while wire is looked at
	wire *wire         // the last that was opened; nil: none was
}

func newSession(open func(context.Context) (*pgx.Conn, error)) *session {
	return &session{open: open, turn: make(chan struct{}, 1)}
}

// newLine is a [postgres.Options].Listen: a listener of its own for each call.
func (s *session) newLine(ctx context.Context) (conns.Listener, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.wire != nil {
		if l := s.wire.join(); l != nil {
			return l, nil
		}
	}
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.wire = &wire{c: c, lines: map[*line]string{}, ended: make(chan struct{})}
	l := s.wire.join()
	go s.wire.run() //nolint:gosec // the connection outlives this call
	return l, nil
}

// wire is a connection, and the listeners on it.
type wire struct {
	c     *pgx.Conn
	ended chan struct{} // closed after the connection
	err   error         // why; set before gone

	mu        sync.Mutex
	lines     map[*line]string // the channel of each; "": none yet
	over      bool             // nobody joins any more
	gone      bool             // and nobody carries asks out
	asks      []ask
	interrupt context.CancelFunc // of the wait for a notification; nil: it waits for none yet
}

// ask is a statement that somebody waits for.
type ask struct {
	do   func(c *pgconn.PgConn) error
	done chan error // capacity one
}

// line is the [conns.Listener] of one store.
type line struct {
	w      *wire
	heard  chan string
	closed chan struct{}
}

// lineCapacity is how many notifications wait for a store that is slow to take them. Then all
// wait.
const lineCapacity = 64

// join returns a listener on the connection; nil where it has ended.
func (w *wire) join() *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil
	}
	l := &line{w: w, heard: make(chan string, lineCapacity), closed: make(chan struct{})}
	w.lines[l] = ""
	return l
}

// run waits for notifications until nobody listens, or the connection is lost.
func (w *wire) run() {
	w.err = w.wait()
	w.mu.Lock()
	w.over, w.gone = true, true
	for _, a := range w.asks {
		a.done <- w.err
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	// A pooler may have carried LISTEN out on a connection that others use.
	_ = w.c.PgConn().Exec(ctx, "UNLISTEN *").Close()
	_ = w.c.Close(ctx) // the session is over either way
	close(w.ended)
}

// errUnheard says that nobody listens any more.
var errUnheard = errors.New("nobody listens on the session any more")

func (w *wire) wait() error {
	for {
		ctx, interrupt := context.WithCancel(context.Background())
		w.mu.Lock()
		asks, empty := w.asks, len(w.lines) == 0
		w.asks, w.interrupt = nil, interrupt
		w.mu.Unlock()
		for _, a := range asks {
			a.done <- a.do(w.c.PgConn())
		}
		if empty {
			interrupt()
			return errUnheard
		}
		n, err := w.c.WaitForNotification(ctx) // a wait that is interrupted leaves the connection as it is
		asked := ctx.Err() != nil
		interrupt()
		switch {
		case err == nil:
			w.deliver(n)
		case !asked || w.c.IsClosed():
			return err
		}
	}
}

// deliver hands a notification to those who listen on its channel.
func (w *wire) deliver(n *pgconn.Notification) {
	var to []*line
	w.mu.Lock()
	for l, channel := range w.lines {
		if channel == n.Channel {
			to = append(to, l)
		}
	}
	w.mu.Unlock()
	for _, l := range to {
		select {
		case l.heard <- n.Payload:
		case <-l.closed:
		}
	}
}

// send lets the connection carry a statement out.
func (w *wire) send(a ask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		a.done <- w.err
		return
	}
	w.asks = append(w.asks, a)
	if w.interrupt != nil {
		w.interrupt()
	}
}

// Listen implements [conns.Listener].
func (l *line) Listen(ctx context.Context, channel string) error {
	l.w.mu.Lock()
	l.w.lines[l] = channel
	l.w.mu.Unlock()
	do := func(c *pgconn.PgConn) error {
		return c.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()).Close()
	}
	a := ask{do, make(chan error, 1)}
	l.w.send(a)
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next implements [conns.Listener].
func (l *line) Next(ctx context.Context) (string, error) {
	select {
	case payload := <-l.heard:
		return payload, nil
	case <-l.w.ended:
		return "", l.w.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Close implements [conns.Listener]. Whoever has heard nothing tries another connection; the
// others stay on this one until they find that out, too.
func (l *line) Close(lost error) {
	close(l.closed)
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lines, l)
	w.over = w.over || lost != nil || len(w.lines) == 0
	if w.interrupt != nil {
		w.interrupt()
	}
}
