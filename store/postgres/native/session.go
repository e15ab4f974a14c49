package native

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// session is one session on which several stores listen. It is open while at least one of them
// listens.
type session struct {
	open func(context.Context) (*pgx.Conn, error)
	turn chan struct{} // has capacity one; whoever reads or changes wire has put its element
	wire *wire         // the connection that was opened last; nil before the first
}

func newSession(open func(context.Context) (*pgx.Conn, error)) *session {
	return &session{open: open, turn: make(chan struct{}, 1)}
}

// newLine is a [postgres.Options].Listen. Each call returns a new listener.
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
	go s.wire.run() //nolint:gosec // the connection is used for longer than this call
	return l, nil
}

// wire is a connection, and the listeners that share it.
type wire struct {
	c     *pgx.Conn
	ended chan struct{} // closed after the connection is closed
	err   error         // why the connection ended; set before gone

	mu        sync.Mutex
	lines     map[*line]string // the channel of each listener; "" before its Listen
	over      bool             // true once no listener may join
	gone      bool             // true once no asks are carried out
	asks      []ask
	interrupt context.CancelFunc // cancels the wait for a notification; nil while there is no such wait
}

// ask is a statement for the connection, and the channel for its result.
type ask struct {
	do   func(c *pgconn.PgConn) error
	done chan error // has capacity one
}

// line is the [conns.Listener] of one store.
type line struct {
	w      *wire
	heard  chan string
	closed chan struct{}
}

// lineCapacity is how many notifications wait for a store that takes them slowly. If more come,
// all stores on the connection wait.
const lineCapacity = 64

// join returns a listener on the connection, or nil if the connection has ended.
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

// run waits for notifications until no listener is left, or the connection is lost.
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
	_ = w.c.Close(ctx) // an error does not matter, since the session ends
	close(w.ended)
}

// errUnheard means that no listener is left.
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
		n, err := w.c.WaitForNotification(ctx) // a wait that is cancelled leaves the connection usable
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

// deliver passes a notification to the listeners of its channel.
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

// send lets the connection run a statement.
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

// Close implements [conns.Listener]. A store that has got no notifications opens another
// connection next time. The other stores stay on this connection until they find that out, too.
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
