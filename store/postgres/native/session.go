package native

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// listenSession is one session on which several stores listen. It is open while at least one of
// them listens.
type listenSession struct {
	open     func(context.Context) (*pgx.Conn, error)
	wireLock chan struct{} // has capacity one; whoever reads or changes conn has put its element
	conn     *sharedConn   // the connection that was opened last; nil before the first
}

func newListenSession(open func(context.Context) (*pgx.Conn, error)) *listenSession {
	return &listenSession{open: open, wireLock: make(chan struct{}, 1)}
}

// newListener is a [postgres.Options].Listen. Each call returns a new listener.
func (s *listenSession) newListener(ctx context.Context) (conns.Listener, error) {
	select {
	case s.wireLock <- struct{}{}:
		defer func() { <-s.wireLock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.conn != nil {
		if l := s.conn.join(); l != nil {
			return l, nil
		}
	}
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.conn = &sharedConn{conn: c, listeners: map[*connListener]string{}, ended: make(chan struct{})}
	l := s.conn.join()
	go s.conn.run() //nolint:gosec // the connection is used for longer than this call
	return l, nil
}

// sharedConn is a connection, and the listeners that share it.
type sharedConn struct {
	conn  *pgx.Conn
	ended chan struct{} // closed after the connection is closed
	err   error         // why the connection ended; set before hasEnded

	mu            sync.Mutex
	listeners     map[*connListener]string // the channel of each listener; "" before its Listen
	isClosedToNew bool                     // true once no listener may join
	hasEnded      bool                     // true once no requests are carried out
	requests      []request
	cancelWait    context.CancelFunc // cancels the wait for a notification; nil while there is no such wait
}

// request is a statement for the connection, and the channel for its result.
type request struct {
	run    func(c *pgconn.PgConn) error
	result chan error // has capacity one
}

// connListener is the [conns.Listener] of one store.
type connListener struct {
	conn     *sharedConn
	payloads chan string
	closed   chan struct{}
}

// listenerCapacity is how many notifications wait for a store that takes them slowly. If more
// come, all stores on the connection wait.
const listenerCapacity = 64

// join returns a listener on the connection, or nil if the connection has ended.
func (w *sharedConn) join() *connListener {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosedToNew {
		return nil
	}
	l := &connListener{conn: w, payloads: make(chan string, listenerCapacity), closed: make(chan struct{})}
	w.listeners[l] = ""
	return l
}

// run waits for notifications until no listener is left, or the connection is lost.
func (w *sharedConn) run() {
	w.err = w.wait()
	w.mu.Lock()
	w.isClosedToNew, w.hasEnded = true, true
	for _, a := range w.requests {
		a.result <- w.err
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	// A pooler may have carried LISTEN out on a connection that others use.
	_ = w.conn.PgConn().Exec(ctx, "UNLISTEN *").Close()
	_ = w.conn.Close(ctx) // an error does not matter, since the session ends
	close(w.ended)
}

// errNoListeners means that no listener is left.
var errNoListeners = errors.New("nobody listens on the session any more")

func (w *sharedConn) wait() error {
	for {
		ctx, interrupt := context.WithCancel(context.Background())
		w.mu.Lock()
		asks, empty := w.requests, len(w.listeners) == 0
		w.requests, w.cancelWait = nil, interrupt
		w.mu.Unlock()
		for _, a := range asks {
			a.result <- a.run(w.conn.PgConn())
		}
		if empty {
			interrupt()
			return errNoListeners
		}
		n, err := w.conn.WaitForNotification(ctx) // a wait that is cancelled leaves the connection usable
		asked := ctx.Err() != nil
		interrupt()
		switch {
		case err == nil:
			w.deliver(n)
		case !asked || w.conn.IsClosed():
			return err
		}
	}
}

// deliver passes a notification to the listeners of its channel.
func (w *sharedConn) deliver(n *pgconn.Notification) {
	var to []*connListener
	w.mu.Lock()
	for l, channel := range w.listeners {
		if channel == n.Channel {
			to = append(to, l)
		}
	}
	w.mu.Unlock()
	for _, l := range to {
		select {
		case l.payloads <- n.Payload:
		case <-l.closed:
		}
	}
}

// send lets the connection run a statement.
func (w *sharedConn) send(a request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hasEnded {
		a.result <- w.err
		return
	}
	w.requests = append(w.requests, a)
	if w.cancelWait != nil {
		w.cancelWait()
	}
}

// Listen implements [conns.Listener].
func (l *connListener) Listen(ctx context.Context, channel string) error {
	l.conn.mu.Lock()
	l.conn.listeners[l] = channel
	l.conn.mu.Unlock()
	do := func(c *pgconn.PgConn) error {
		return c.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()).Close()
	}
	a := request{do, make(chan error, 1)}
	l.conn.send(a)
	select {
	case err := <-a.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next implements [conns.Listener].
func (l *connListener) Next(ctx context.Context) (string, error) {
	select {
	case payload := <-l.payloads:
		return payload, nil
	case <-l.conn.ended:
		return "", l.conn.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Close implements [conns.Listener]. A store that has got no notifications opens another
// connection next time. The other stores stay on this connection until they find that out, too.
func (l *connListener) Close(lost error) {
	close(l.closed)
	w := l.conn
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.listeners, l)
	w.isClosedToNew = w.isClosedToNew || lost != nil || len(w.listeners) == 0
	if w.cancelWait != nil {
		w.cancelWait()
	}
}
