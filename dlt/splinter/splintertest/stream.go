package splintertest

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // required by RFC 6455
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The frames of RFC 6455.
const (
	frameText   = 0x1
	frameBinary = 0x2
	frameClose  = 0x8
	framePing   = 0x9
	framePong   = 0xa
)

// stream is one subscriber's connection. It writes its frames itself, without a library, to behave
// as scabbard does: it answers a ping with a ping.
type stream struct {
	conn    net.Conn
	writeMu sync.Mutex // held while conn is written to

	stopping chan struct{} // closed when the service stops
	once     sync.Once
	wakeUp   chan struct{} // has room for one value, which means that events is not empty
	eventsMu sync.Mutex
	events   [][]byte // published and not written yet
}

// stop makes the service close the stream with a close frame.
func (s *stream) stop() { s.once.Do(func() { close(s.stopping) }) }

func (s *stream) write(op byte, payload []byte) error {
	head := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := s.conn.Write(append(head, payload...))
	return err
}

func readFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, err = io.ReadFull(r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil {
		return 0, nil, err
	}
	if head[0]&0x80 == 0 || head[1]&0x80 == 0 || n > 1<<20 {
		return 0, nil, errors.New("splintertest: a frame that is in parts, not masked, or too long")
	}
	var mask [4]byte
	if _, err = io.ReadFull(r, mask[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0] & 0x0f, payload, err
}

// publish queues an event for each subscriber of a service. The caller holds the lock.
func (n *Network) publish(s *service, r receipt) {
	for x := range s.streams {
		x.add(r.event())
	}
}

func (s *stream) add(events ...[]byte) {
	s.eventsMu.Lock()
	s.events = append(s.events, events...)
	s.eventsMu.Unlock()
	select {
	case s.wakeUp <- struct{}{}:
	default:
	}
}

// flush writes the queued events in order.
func (s *stream) flush() error {
	for {
		s.eventsMu.Lock()
		events := s.events
		s.events = nil
		s.eventsMu.Unlock()
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			if err := s.write(frameText, e); err != nil {
				return err
			}
		}
	}
}

// subscribe serves GET ws/subscribe.
func (v *node) subscribe(w http.ResponseWriter, r *http.Request, s *service) {
	after, bounded := parseQuery(r.URL.RawQuery)["last_seen_event"]
	if bounded && strings.TrimSpace(after) == "" {
		v.send(w, r, errorAnswer(http.StatusBadRequest, "last_seen_event must not be empty"), Fault{})
		return
	}
	if f := v.drawFault(OpEvents, s, nil); f != (Fault{}) {
		if f.Delay > 0 && !v.delay(r, f.Delay) {
			panic(http.ErrAbortHandler)
		}
		if f.Answer != AnswerProperly {
			v.send(w, r, answer{}, f)
			return
		}
	}
	done, ok := v.waitForWorker(r)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	x, history := &stream{wakeUp: make(chan struct{}, 1), stopping: make(chan struct{})}, &replayCursor{afterID: after, hasBound: bounded}
	if !v.waitForLocks(s) {
		done()
		panic(http.ErrAbortHandler)
	}
	history.loadPage(s.receipts)
	v.mu.Unlock()
	done()
	key := r.Header.Get("Sec-WebSocket-Key")
	if key == "" || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		v.send(w, r, serverErrorAnswer(), Fault{})
		return
	}
	v.register(s, x)
	defer func() {
		v.mu.Lock()
		delete(s.streams, x)
		v.wake()
		v.mu.Unlock()
	}()
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, buf, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Time{})
	v.mu.Lock()
	x.conn = conn
	v.mu.Unlock()
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
		base64.StdEncoding.EncodeToString(sum[:])+"\r\nAccess-Control-Allow-Credentials: true\r\nDate: "+time.Now().UTC().Format(http.TimeFormat)+"\r\n\r\n")
	if err == nil {
		v.serve(s, x, buf.Reader, history)
	}
}

// serve serves one connection until it ends.
func (v *node) serve(s *service, x *stream, r *bufio.Reader, history *replayCursor) {
	// The client's messages are read only after the history was sent.
	err := v.replay(s, x, history)
	left := make(chan struct{})
	if !v.goUnlessClosed(func() {
		defer close(left)
		x.listen(r)
	}) {
		return
	}
	tick := time.NewTicker(v.options.PingInterval)
	defer tick.Stop()
	for err == nil {
		select {
		case <-x.wakeUp:
			err = x.flush()
		case <-tick.C:
			err = x.write(framePing, nil)
		case <-v.closed:
			err = errClosed
		case <-x.stopping:
			err = errClosed
		case <-left:
			err = errClosed
		}
	}
	if isClosed(v.closed) || isClosed(x.stopping) {
		_ = x.write(frameClose, []byte{0x03, 0xe9}) // the close code 1001
	}
	_ = x.conn.Close() // ends the goroutine that reads
	<-left
}

// listen answers the client's messages.
func (s *stream) listen(r *bufio.Reader) {
	for {
		op, payload, err := readFrame(r)
		if err != nil {
			return
		}
		switch op {
		case frameText, frameBinary: // the node sends it back
			err = s.write(op, payload)
		case framePing: // answered with a ping, not a pong
			err = s.write(framePing, payload)
		case framePong:
			err = s.write(framePong, payload)
		case frameClose:
			_ = s.write(frameClose, append([]byte{0x03, 0xe8}, "Received close frame closing normally"...))
			return
		}
		if err != nil {
			return
		}
	}
}
