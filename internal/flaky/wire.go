package flaky

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
)

// Dial connects to a PostgreSQL server. A statement that fails breaks its connection, as a
// network does: before the server gets it, or instead of its answer. A driver that lets its users
// dial can have such faults without database/sql.
func (f *Faults) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, f: f, prepared: map[string]string{}}, nil
}

// wire is a connection in PostgreSQL's protocol.
type wire struct {
	net.Conn
	f *Faults

	mu       sync.Mutex
	begun    bool              // the first message to the server has no kind
	out      []byte            // of a message to the server
	prepared map[string]string // the verbs of statements by their names
	bound    string            // the verb of the statement that is executed next
	broken   error             // why nothing is read any more
	lose     error             // why the next answer is lost
	ends     bool              // the server says in its place that it ends the connection
	last     []byte            // the part of it that is not read yet
	doomed   bool              // the COMMIT on its way is answered with ROLLBACK
	in       []byte            // the head of a message from the server
	rest     int               // how much of its body is to come
}

// Write sends messages on, or none of them.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = append(w.out, p...)
	for {
		head := 1
		if !w.begun {
			head = 0
		}
		if len(w.out) < head+4 {
			break
		}
		size := head + int(binary.BigEndian.Uint32(w.out[head:]))
		if len(w.out) < size {
			break
		}
		if w.begun {
			w.see(w.out[0], w.out[head+4:size])
		}
		w.out, w.begun = w.out[size:], true
	}
	if w.broken != nil {
		_ = w.Conn.Close()
		return len(p), nil // it is lost on its way
	}
	if w.doomed {
		w.doomed = false
		_, err := w.Conn.Write(message('Q', "ROLLBACK"))
		return len(p), err
	}
	return w.Conn.Write(p)
}

// message returns a message of texts.
func message(kind byte, texts ...string) []byte {
	m := []byte{kind, 0, 0, 0, 0}
	for _, t := range texts {
		m = append(append(m, t...), 0)
	}
	binary.BigEndian.PutUint32(m[1:], uint32(len(m)-1))
	return m
}

// see draws whether the statement of a message fails.
func (w *wire) see(kind byte, body []byte) {
	name, rest, _ := bytes.Cut(body, []byte{0})
	text, _, _ := bytes.Cut(rest, []byte{0})
	switch kind {
	case 'P':
		w.prepared[string(name)] = verb(string(text))
		return
	case 'B': // its first string is a portal
		w.bound = w.prepared[string(text)]
		return
	case 'Q':
		w.bound = verb(string(name))
	case 'E':
	default:
		return
	}
	switch k := w.f.draw(w.bound); k {
	case Before, Cut, Undone:
		w.broken = fmt.Errorf("%s: %w", w.bound, ErrBefore)
	case After, Shutdown:
		w.lose = fmt.Errorf("%s: %w", w.bound, ErrAfter)
		w.ends = k == Shutdown
	case Doomed:
		w.doomed = true
	}
}

// Read loses an answer once the server has sent all of it.
func (w *wire) Read(p []byte) (int, error) {
	for {
		if n := w.ending(p); n > 0 {
			return n, nil
		}
		n, err := w.Conn.Read(p)
		w.mu.Lock()
		if w.heard(p[:n]) && w.lose != nil {
			w.broken = w.lose
			_ = w.Conn.Close()
			if w.ends {
				w.ends, w.last = false, message('E', "SFATAL", "VFATAL", "C57P01", "Mterminating connection due to administrator command", "")
				w.mu.Unlock()
				continue
			}
		}
		broken, lose := w.broken, w.lose
		w.mu.Unlock()
		switch {
		case broken != nil:
			return 0, broken
		case lose == nil || err != nil:
			return n, err
		}
	}
}

// ending reads the server's last words.
func (w *wire) ending(p []byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := copy(p, w.last)
	w.last = w.last[n:]
	return n
}

// heard reports whether the server is ready for the next statement.
func (w *wire) heard(p []byte) (ready bool) {
	for len(p) > 0 {
		if w.rest > 0 {
			n := min(w.rest, len(p))
			w.rest, p = w.rest-n, p[n:]
			continue
		}
		w.in, p = append(w.in, p[0]), p[1:]
		if len(w.in) == 5 {
			if ready = ready || w.in[0] == 'Z'; w.in[0] == 'Z' && len(p) > 0 && p[0] == 'T' && w.f.dooms() {
				p[0] = 'E' // so the server says that the transaction has failed
			}
			w.rest, w.in = int(binary.BigEndian.Uint32(w.in[1:]))-4, w.in[:0]
		}
	}
	return ready
}
