package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// wire counts the round trips of clients to PostgreSQL, with any driver: the messages after which
// a client waits for an answer.
type wire struct{ trips atomic.Int64 }

// Dial, DialTimeout and DialContext are the methods that drivers call to connect.
func (w *wire) Dial(network, addr string) (net.Conn, error) {
	return w.DialContext(context.Background(), network, addr)
}

func (w *wire) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return w.DialContext(ctx, network, addr)
}

func (w *wire) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: c, wire: w, need: 4}, nil // the first message has no letter
}

// wireConn reads the heads of the messages that pass: a letter, and a length of four bytes that
// includes itself.
type wireConn struct {
	net.Conn
	wire *wire
	head [5]byte
	have int // bytes of the head read so far
	need int
	skip int // bytes of the body still to come
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.count(p)
	return c.Conn.Write(p)
}

func (c *wireConn) count(p []byte) {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip, p = c.skip-n, p[n:]
			continue
		}
		n := copy(c.head[c.have:c.need], p)
		c.have, p = c.have+n, p[n:]
		if c.have < c.need {
			return
		}
		c.skip = int(binary.BigEndian.Uint32(c.head[c.need-4:])) - 4
		if c.need == 5 {
			switch c.head[0] {
			case 'Q', 'S', 'c': // Query, Sync, CopyDone
				c.wire.trips.Add(1)
			}
		}
		c.have, c.need = 0, 5
	}
}
