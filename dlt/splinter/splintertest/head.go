package splintertest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// headTimeout is how long a node waits for the rest of a request's head before it answers 408
	// (docs/ledgers/splinter.md#services-tokens-and-connections).
	headTimeout = 4600 * time.Millisecond
	// maxHeaders is the number of header fields from which on a node's parser refuses a request.
	maxHeaders = 100
)

// tooManyHeaders reports whether the parser refuses a request. The field Host counts, too, and is
// not in r.Header.
func tooManyHeaders(r *http.Request) bool {
	n := 1
	for _, values := range r.Header {
		n += len(values)
	}
	return n >= maxHeaders
}

// headListener answers 408 on connections whose head is not completed in time. net/http would
// close them without an answer.
type headListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l headListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: c}, nil
}

// headConn is a connection of a headListener.
type headConn struct {
	net.Conn

	mu           sync.Mutex
	hasHeadBegun bool // bytes have come since the last answer
	deadline     time.Time
}

// SetLinger allows closing the connection with a reset.
func (c *headConn) SetLinger(seconds int) error {
	if t, ok := c.Conn.(interface{ SetLinger(seconds int) error }); ok {
		return t.SetLinger(seconds)
	}
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *headConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// Read implements [net.Conn].
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.hasHeadBegun = c.hasHeadBegun || n > 0
	// net/http uses a deadline of long ago to end its own read; that is not a timeout.
	late := c.hasHeadBegun && errors.Is(err, os.ErrDeadlineExceeded) && time.Since(c.deadline) < time.Hour
	c.mu.Unlock()
	if late {
		_, _ = fmt.Fprintf(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\nDate: %s\r\n\r\n",
			time.Now().UTC().Format(http.TimeFormat)) // the client may have ended the connection
	}
	return n, err
}

// Write implements [net.Conn].
func (c *headConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.hasHeadBegun = false
	c.mu.Unlock()
	return c.Conn.Write(p)
}
