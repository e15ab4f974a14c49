package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// tripCounter counts the round trips of clients to PostgreSQL, with any driver: the messages after
// which a client waits for an answer.
type tripCounter struct{ trips atomic.Int64 }

// Dial, DialTimeout and DialContext are the methods that drivers call to connect.
func (w *tripCounter) Dial(network, addr string) (net.Conn, error) {
	return w.DialContext(context.Background(), network, addr)
}

func (w *tripCounter) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return w.DialContext(ctx, network, addr)
}

func (w *tripCounter) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: c, wire: w, headSize: 4}, nil // the first message of a connection has no letter
}

// countingConn reads the heads of the messages that pass: a letter, and a length of four bytes
// that includes itself.
type countingConn struct {
	net.Conn
	wire          *tripCounter
	head          [5]byte
	headBytesRead int // bytes of the head read so far
	headSize      int
	bodyBytesLeft int // bytes of the body still to come
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.countTrips(p)
	return c.Conn.Write(p)
}

func (c *countingConn) countTrips(p []byte) {
	for len(p) > 0 {
		if c.bodyBytesLeft > 0 {
			n := min(c.bodyBytesLeft, len(p))
			c.bodyBytesLeft, p = c.bodyBytesLeft-n, p[n:]
			continue
		}
		n := copy(c.head[c.headBytesRead:c.headSize], p)
		c.headBytesRead, p = c.headBytesRead+n, p[n:]
		if c.headBytesRead < c.headSize {
			return
		}
		c.bodyBytesLeft = int(binary.BigEndian.Uint32(c.head[c.headSize-4:])) - 4
		if c.headSize == 5 {
			switch c.head[0] {
			case 'Q', 'S', 'c': // Query, Sync, CopyDone
				c.wire.trips.Add(1)
			}
		}
		c.headBytesRead, c.headSize = 0, 5
	}
}
