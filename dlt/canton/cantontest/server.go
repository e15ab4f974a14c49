package cantontest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// TB is the part of testing.TB that [Start] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start returns a participant that listens on 127.0.0.1, and closes it at the end of the test.
func Start(t TB, o *Options) *Participant {
	t.Helper()
	p, err := Listen(o)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(p.Close)
	return p
}

// Listen returns a participant that listens on Options.Addr. The caller must close it.
func Listen(o *Options) (*Participant, error) {
	p, err := NewParticipant(o)
	if err != nil {
		return nil, err
	}
	if err := p.Resume(); err != nil {
		return nil, err
	}
	return p, nil
}

// openSockets are the open websockets.
type openSockets struct {
	mu     sync.Mutex
	conns  map[*websocket.Conn]struct{}
	isDown bool           // no new sockets are accepted
	inUse  sync.WaitGroup // sockets in use
}

// URL returns the base URL, "http://127.0.0.1:41234"; "" before the first listen.
func (p *Participant) URL() string { return p.front.URL() }

// Resume listens again at the same address after a [Participant.Stop].
func (p *Participant) Resume() error {
	return p.front.Resume(p.listen, &http.Server{Handler: p, ReadHeaderTimeout: time.Minute})
}

func (p *Participant) listen(addr string) (net.Listener, error) {
	select {
	case <-p.closed:
		return nil, errors.New("cantontest: the participant is closed")
	default:
	}
	l, err := net.Listen("tcp", cmp.Or(addr, p.options.Addr))
	if err != nil {
		return nil, fmt.Errorf("cantontest: listening: %w", err)
	}
	p.sockets.mu.Lock()
	p.sockets.isDown = false
	p.sockets.mu.Unlock()
	return l, nil
}

// Stop refuses connections from now on and cuts the open connections. Submissions that were
// accepted still complete.
func (p *Participant) Stop() {
	p.front.Stop(func() {
		p.sockets.mu.Lock()
		p.sockets.isDown = true
		p.sockets.mu.Unlock()
		p.DropStreams()
		p.sockets.inUse.Wait()
	})
}

// Close stops the participant for good and ends hanging requests. It may be called twice.
func (p *Participant) Close() {
	p.closeOnce.Do(func() { close(p.closed) })
	p.Stop()
}

// DropStreams ends all open streams without a close frame. New streams can be opened.
func (p *Participant) DropStreams() {
	p.sockets.mu.Lock()
	open := slices.Collect(maps.Keys(p.sockets.conns))
	p.sockets.mu.Unlock()
	for _, c := range open {
		_ = c.CloseNow() // the connection may have ended already
	}
}

// send writes an answer after the fault has changed it.
func (p *Participant) send(w http.ResponseWriter, r *http.Request, a answer, f Fault) {
	a = f.changedAnswer(a)
	switch f.Answer {
	case AnswerNever:
		select {
		case <-r.Context().Done():
		case <-p.closed:
		}
		panic(http.ErrAbortHandler)
	case AnswerClosed:
		panic(http.ErrAbortHandler)
	case AnswerReset:
		simnode.Reset(w)
		return
	case AnswerTruncated:
		simnode.Truncate(w, a.status, a.contentType, a.body, len(a.body)+1)
	}
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have ended the connection
}
