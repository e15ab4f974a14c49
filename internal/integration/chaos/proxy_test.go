package chaos

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between a worker and its peer, and misbehaves on command.
//
// It never hands on late the bytes that a client gave up waiting for: a ledger's LateArrival
// says how late these may be, and here nothing may be later.
type proxy struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	refuse bool
	delay  time.Duration // each way
	hole   chan struct{} // not nil while no bytes get through; closed at its end
	links  map[*link]struct{}
	barred string                    // the client that gets no link; "" bars none
	name   func(first []byte) string // the client's name, by the first bytes that it sends; may be nil
	wg     sync.WaitGroup
}

// link is a connection through the proxy.
type link struct {
	p              *proxy
	client, server net.Conn
	done           chan struct{}
	once           sync.Once

	mu    sync.Mutex
	muted bool   // a flow that some box in between has forgotten
	from  string // the client's name, once it is known
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target, links: map[*link]struct{}{}}
	p.wg.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.cut(true)
	p.wg.Wait()
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.connect(c) })
	}
}

func (p *proxy) connect(c net.Conn) {
	p.mu.Lock()
	target, refuse := p.target, p.refuse
	p.mu.Unlock()
	if refuse {
		abort(c)
		return
	}
	s, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		abort(c)
		return
	}
	l := &link{p: p, client: c, server: s, done: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = struct{}{}
	refuse = p.refuse || p.target != target
	p.mu.Unlock()
	if refuse {
		l.close()
	}
	p.wg.Go(func() { l.pump(c, s, true) })
	p.wg.Go(func() { l.pump(s, c, false) })
}

// cut ends all connections with a reset. refuse resets new ones, too, until the next call.
func (p *proxy) cut(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	links := p.all()
	p.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

func (p *proxy) all() []*link {
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

// point sends connections from now on to another target, and cuts the present ones.
func (p *proxy) point(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.cut(false)
}

// lead sends connections from now on to another target, and leaves the present ones.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// bar ends the links of a client, and gives it no others until the next call.
func (p *proxy) bar(client string) {
	p.mu.Lock()
	p.barred = client
	links := p.all()
	p.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		from := l.from
		l.mu.Unlock()
		if client != "" && from == client {
			l.close()
		}
	}
}

// begins takes the first bytes of a client, and reports whether it may go on.
func (l *link) begins(first []byte) bool {
	if l.p.name == nil {
		return true
	}
	from := l.p.name(first)
	l.mu.Lock()
	l.from = from
	l.mu.Unlock()
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.p.barred == "" || l.p.barred != from
}

func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// swallow lets no bytes through until open, and keeps them.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole == nil {
		p.hole = make(chan struct{})
	}
}

func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole != nil {
		close(p.hole)
		p.hole = nil
	}
}

// mute makes the present connections silent, until they are given up; new connections work.
func (p *proxy) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.mu.Lock()
		l.muted = true
		l.mu.Unlock()
	}
}

// found resets the connections that were made silent, as keep-alive probes would after two
// minutes: lib/pq waits for an answer even when its context has ended.
func (p *proxy) found() {
	p.mu.Lock()
	links := p.all()
	p.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		muted := l.muted
		l.mu.Unlock()
		if muted {
			l.close()
		}
	}
}

func (p *proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hole
}

func (p *proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// chunk is a read's bytes, and the time to hand them on.
type chunk struct {
	data []byte
	at   time.Time
}

// pump hands on from's bytes. When the client leaves, bytes on their way are lost; when the
// server leaves, they are handed on before.
func (l *link) pump(from, to net.Conn, fromClient bool) {
	chunks := make(chan chunk, 4096)
	left := make(chan struct{}) // closed when the client has left
	l.p.wg.Go(func() {
		defer close(chunks)
		for first := fromClient; ; first = false {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if first && n > 0 && !l.begins(buf[:n]) {
				return
			}
			if n > 0 {
				select {
				case chunks <- chunk{buf[:n], time.Now().Add(l.p.latency())}:
				case <-l.done:
					return
				}
			}
			if err != nil {
				if fromClient {
					close(left)
				}
				return
			}
		}
	})
	defer l.close()
	for c := range chunks {
		if !l.until(c.at, left) || !l.through(left) {
			break
		}
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	l.through(nil) // an end does not get through either
}

// until waits for a time, unless the client leaves.
func (l *link) until(at time.Time, left <-chan struct{}) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-left:
	case <-l.done:
	}
	return false
}

// forgotten is the time that a silent connection is kept, unless its client leaves it before.
// The server does not notice until then.
const forgotten = 4 * time.Second

// through waits until bytes get through, unless the client leaves.
func (l *link) through(left <-chan struct{}) bool {
	for {
		select {
		case <-left:
			return false
		default:
		}
		l.mu.Lock()
		muted := l.muted
		l.mu.Unlock()
		gate := l.p.gate()
		switch {
		case muted:
			timer := time.NewTimer(forgotten)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-left:
			case <-l.done:
			}
			return false
		case gate == nil:
			return true
		}
		select {
		case <-gate:
		case <-left:
			return false
		case <-l.done:
			return false
		}
	}
}

func (l *link) close() {
	l.once.Do(func() {
		l.p.mu.Lock()
		delete(l.p.links, l)
		l.p.mu.Unlock()
		close(l.done)
		abort(l.client)
		abort(l.server)
	})
}

// abort closes a connection with a reset, not a goodbye.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
