package chaos

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between a worker and its peer, and delays, drops or cuts connections on command.
//
// It drops bytes that the client no longer waits for instead of delivering them late: a ledger's
// LateArrival says how late bytes may arrive, and the proxy must not exceed it.
type proxy struct {
	listener net.Listener

	mu           sync.Mutex
	target       string
	refusesNew   bool
	delay        time.Duration // in each direction
	holdUntil    chan struct{} // not nil while no bytes pass; closed when they pass again
	conns        map[*proxiedConn]struct{}
	barredClient string                    // the client that gets no connection; "" for none
	clientName   func(first []byte) string // returns the client's name from its first bytes; may be nil
	wg           sync.WaitGroup
}

// proxiedConn is a connection through the proxy.
type proxiedConn struct {
	proxy          *proxy
	client, server net.Conn
	done           chan struct{}
	once           sync.Once

	mu         sync.Mutex
	isMuted    bool   // a connection whose state a device in between has lost
	clientName string // the client's name, once it is known
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target, conns: map[*proxiedConn]struct{}{}}
	p.wg.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.resetAll(true)
	p.wg.Wait()
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // the proxy is closed
		}
		p.wg.Go(func() { p.connect(c) })
	}
}

func (p *proxy) connect(c net.Conn) {
	p.mu.Lock()
	target, refuse := p.target, p.refusesNew
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
	l := &proxiedConn{proxy: p, client: c, server: s, done: make(chan struct{})}
	p.mu.Lock()
	p.conns[l] = struct{}{}
	refuse = p.refusesNew || p.target != target
	p.mu.Unlock()
	if refuse {
		l.close()
	}
	p.wg.Go(func() { l.deliverBytes(c, s, true) })
	p.wg.Go(func() { l.deliverBytes(s, c, false) })
}

// resetAll resets all connections. If refuse is true, new connections are reset, too, until the
// next call.
func (p *proxy) resetAll(refuse bool) {
	p.mu.Lock()
	p.refusesNew = refuse
	links := p.currentLinks()
	p.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

func (p *proxy) currentLinks() []*proxiedConn {
	links := make([]*proxiedConn, 0, len(p.conns))
	for l := range p.conns {
		links = append(links, l)
	}
	return links
}

// redirectAndCut directs new connections to another target, and cuts the present ones.
func (p *proxy) redirectAndCut(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.resetAll(false)
}

// redirect directs new connections to another target, and leaves the present ones.
func (p *proxy) redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// barClient ends the connections of a client, and refuses it new ones until the next call.
func (p *proxy) barClient(client string) {
	p.mu.Lock()
	p.barredClient = client
	links := p.currentLinks()
	p.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		from := l.clientName
		l.mu.Unlock()
		if client != "" && from == client {
			l.close()
		}
	}
}

// admit gets the first bytes of a client, and reports whether the connection is allowed.
func (l *proxiedConn) admit(first []byte) bool {
	if l.proxy.clientName == nil {
		return true
	}
	from := l.proxy.clientName(first)
	l.mu.Lock()
	l.clientName = from
	l.mu.Unlock()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.proxy.barredClient == "" || l.proxy.barredClient != from
}

func (p *proxy) setDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// holdBytes holds all bytes back until open is called.
func (p *proxy) holdBytes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holdUntil == nil {
		p.holdUntil = make(chan struct{})
	}
}

func (p *proxy) releaseBytes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holdUntil != nil {
		close(p.holdUntil)
		p.holdUntil = nil
	}
}

// muteLinks makes the present connections silent until their clients give up; new connections
// work.
func (p *proxy) muteLinks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.conns {
		l.mu.Lock()
		l.isMuted = true
		l.mu.Unlock()
	}
}

// resetMuted resets the silent connections, as keep-alive probes would after two minutes. This is
// needed because lib/pq waits for an answer even when its context has ended.
func (p *proxy) resetMuted() {
	p.mu.Lock()
	links := p.currentLinks()
	p.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		muted := l.isMuted
		l.mu.Unlock()
		if muted {
			l.close()
		}
	}
}

func (p *proxy) holdChannel() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holdUntil
}

func (p *proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// delayedBytes holds the bytes of one read, and the time at which to deliver them.
type delayedBytes struct {
	data      []byte
	deliverAt time.Time
}

// deliverBytes delivers the bytes that it reads from from. When the client disconnects, bytes on
// their way are dropped; when the server disconnects, they are delivered first.
func (l *proxiedConn) deliverBytes(from, to net.Conn, fromClient bool) {
	chunks := make(chan delayedBytes, 4096)
	left := make(chan struct{}) // closed when the client has disconnected
	l.proxy.wg.Go(func() {
		defer close(chunks)
		for first := fromClient; ; first = false {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if first && n > 0 && !l.admit(buf[:n]) {
				return
			}
			if n > 0 {
				select {
				case chunks <- delayedBytes{buf[:n], time.Now().Add(l.proxy.latency())}:
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
		if !l.waitUntil(c.deliverAt, left) || !l.waitUntilOpen(left) {
			break
		}
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	l.waitUntilOpen(nil) // a hole also delays the end of a connection
}

// waitUntil waits for a time, unless the client disconnects.
func (l *proxiedConn) waitUntil(at time.Time, left <-chan struct{}) bool {
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

// muteTimeLimit is how long a silent connection is kept, unless its client disconnects earlier.
// The server does not notice until then.
const muteTimeLimit = 4 * time.Second

// waitUntilOpen waits until bytes may pass, unless the client disconnects.
func (l *proxiedConn) waitUntilOpen(left <-chan struct{}) bool {
	for {
		select {
		case <-left:
			return false
		default:
		}
		l.mu.Lock()
		muted := l.isMuted
		l.mu.Unlock()
		gate := l.proxy.holdChannel()
		switch {
		case muted:
			timer := time.NewTimer(muteTimeLimit)
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

func (l *proxiedConn) close() {
	l.once.Do(func() {
		l.proxy.mu.Lock()
		delete(l.proxy.conns, l)
		l.proxy.mu.Unlock()
		close(l.done)
		abort(l.client)
		abort(l.server)
	})
}

// abort closes a connection with a reset instead of an orderly close.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
