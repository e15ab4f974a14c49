package flaky

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
)

// Dial connects to a PostgreSQL server. A statement that fails breaks its connection, as a network
// does: before the server gets the statement, or instead of its answer. A driver that accepts a
// dial func can have such faults without database/sql.
func (f *Faults) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: c, f: f, prepared: map[string]string{}}, nil
}

// faultyConn is a connection that carries PostgreSQL's protocol.
type faultyConn struct {
	net.Conn
	f *Faults

	mu            sync.Mutex
	startupSent   bool              // true after the first message to the server, which has no type byte
	outgoing      []byte            // the part of a message to the server that was written so far
	prepared      map[string]string // the verbs of prepared statements, by the statements' names
	boundVerb     string            // the verb of the statement that is executed next
	brokenErr     error             // why nothing is read any more
	loseAnswerErr error             // why the next answer is lost
	saysItEnds    bool              // true if the server sends an error that it ends the connection, instead of the answer
	lastWords     []byte            // the part of that error that is not read yet
	commitDoomed  bool              // true if the COMMIT under way is answered with ROLLBACK
	incomingHead  []byte            // the head of a message from the server
	bodyLeft      int               // how many bytes of its body are still to come
}

// Write sends all messages on, or none of them.
func (w *faultyConn) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outgoing = append(w.outgoing, p...)
	for {
		head := 1
		if !w.startupSent {
			head = 0
		}
		if len(w.outgoing) < head+4 {
			break
		}
		size := head + int(binary.BigEndian.Uint32(w.outgoing[head:]))
		if len(w.outgoing) < size {
			break
		}
		if w.startupSent {
			w.drawForMessage(w.outgoing[0], w.outgoing[head+4:size])
		}
		w.outgoing, w.startupSent = w.outgoing[size:], true
	}
	if w.brokenErr != nil {
		_ = w.Conn.Close()
		return len(p), nil // the message is lost on its way
	}
	if w.commitDoomed {
		w.commitDoomed = false
		_, err := w.Conn.Write(message('Q', "ROLLBACK"))
		return len(p), err
	}
	return w.Conn.Write(p)
}

// message returns a message that consists of texts.
func message(kind byte, texts ...string) []byte {
	m := []byte{kind, 0, 0, 0, 0}
	for _, t := range texts {
		m = append(append(m, t...), 0)
	}
	binary.BigEndian.PutUint32(m[1:], uint32(len(m)-1))
	return m
}

// drawForMessage decides whether the statement of a message fails.
func (w *faultyConn) drawForMessage(kind byte, body []byte) {
	name, rest, _ := bytes.Cut(body, []byte{0})
	text, _, _ := bytes.Cut(rest, []byte{0})
	switch kind {
	case 'P':
		w.prepared[string(name)] = statementVerb(string(text))
		return
	case 'B': // the first string of this message is the name of a portal
		w.boundVerb = w.prepared[string(text)]
		return
	case 'Q':
		w.boundVerb = statementVerb(string(name))
	case 'E':
	default:
		return
	}
	switch k := w.f.drawKind(w.boundVerb); k {
	case Before, ConnectionCut, RolledBack:
		w.brokenErr = fmt.Errorf("%s: %w", w.boundVerb, ErrBefore)
	case After, Shutdown:
		w.loseAnswerErr = fmt.Errorf("%s: %w", w.boundVerb, ErrAfter)
		w.saysItEnds = k == Shutdown
	case CommitRolledBack:
		w.commitDoomed = true
	}
}

// Read loses an answer after the server has sent all of it.
func (w *faultyConn) Read(p []byte) (int, error) {
	for {
		if n := w.readLastWords(p); n > 0 {
			return n, nil
		}
		n, err := w.Conn.Read(p)
		w.mu.Lock()
		if w.isReady(p[:n]) && w.loseAnswerErr != nil {
			w.brokenErr = w.loseAnswerErr
			_ = w.Conn.Close()
			if w.saysItEnds {
				w.saysItEnds, w.lastWords = false, message('E', "SFATAL", "VFATAL", "C57P01", "Mterminating connection due to administrator command", "")
				w.mu.Unlock()
				continue
			}
		}
		broken, lose := w.brokenErr, w.loseAnswerErr
		w.mu.Unlock()
		switch {
		case broken != nil:
			return 0, broken
		case lose == nil || err != nil:
			return n, err
		}
	}
}

// readLastWords reads the error with which the server ends the connection.
func (w *faultyConn) readLastWords(p []byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := copy(p, w.lastWords)
	w.lastWords = w.lastWords[n:]
	return n
}

// isReady reports whether the server is ready for the next statement.
func (w *faultyConn) isReady(p []byte) (ready bool) {
	for len(p) > 0 {
		if w.bodyLeft > 0 {
			n := min(w.bodyLeft, len(p))
			w.bodyLeft, p = w.bodyLeft-n, p[n:]
			continue
		}
		w.incomingHead, p = append(w.incomingHead, p[0]), p[1:]
		if len(w.incomingHead) == 5 {
			if ready = ready || w.incomingHead[0] == 'Z'; w.incomingHead[0] == 'Z' && len(p) > 0 && p[0] == 'T' && w.f.doomsCommit() {
				p[0] = 'E' // so that the server says that the transaction has failed
			}
			w.bodyLeft, w.incomingHead = int(binary.BigEndian.Uint32(w.incomingHead[1:]))-4, w.incomingHead[:0]
		}
	}
	return ready
}
