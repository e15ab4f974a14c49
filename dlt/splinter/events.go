package splinter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

const opEvents = "events"

// Events implements [dlt.Ledger], for exactly one service. It subscribes to new events, or with
// Options.Replay to all events. Replayed ids were committed, but a missing id proves nothing
// (docs/ledgers/splinter.md#events). Events yields a status Committed for batches that this
// process submitted; any other event only means that something has changed.
//
// If Options.Journal is set, and no other process writes the service's log, Events writes it. The
// error is a [*dlt.Error].
func (c *Client) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	if len(services) != 1 {
		return &dlt.Error{Op: opEvents, Kind: dlt.ErrMisconfigured, Err: &batch.InputError{
			Field: "services", Value: fmt.Sprint(len(services)), Want: "one",
		}}
	}
	p, err := c.locate(services[0])
	if err != nil {
		return &dlt.Error{Op: opEvents, Kind: dlt.ErrMisconfigured, Err: err}
	}
	if ctx.Err() != nil {
		return nil
	}
	from := "" // "" means from the beginning
	if !c.options.Replay {
		from = strings.Repeat("f", idLen) // greater than any id, so the node replays nothing
	}
	conn, err := c.subscribeAt(ctx, p, from)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	s := &subscription{client: c, service: p.id, yield: yield, conn: conn, begunAt: time.Now()}
	if c.options.Journal != nil {
		if _, taken := c.logWriters.LoadOrStore(p.id, struct{}{}); !taken {
			defer c.logWriters.Delete(p.id)
			s.log = &logWriter{client: c, service: p.id, stream: streamName(p.id)}
		}
	}
	err = s.run(ctx)
	if err != nil && s.rootTracker != nil {
		c.holds.begin(p.id, time.Now())
	}
	return err
}

// handshakeTimeout limits the opening of a stream.
const handshakeTimeout = 15 * time.Second

// subscribeAt opens the websocket. The server registers the subscriber before it answers. From
// then on it sends every event, after a replay of the receipts with ids greater than from.
func (c *Client) subscribeAt(ctx context.Context, p location, from string) (*websocket.Conn, error) {
	h := http.Header{}
	if err := c.setHeaders(ctx, h, opEvents, p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	hc := *c.http
	hc.Timeout = 0 // the timeout would end the stream
	target := p.rootURL.JoinPath("ws", "subscribe")
	if from != "" {
		target.RawQuery = "last_seen_event=" + from
	}
	conn, resp, err := websocket.Dial(ctx, target.String(), &websocket.DialOptions{
		HTTPClient: &hc, HTTPHeader: h, CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		c.noteAnswer(p, resp.StatusCode, h)
		conn.SetReadLimit(c.options.MaxResponse)
		return conn, nil
	}
	if resp == nil {
		return nil, &dlt.Error{Op: opEvents, Kind: dlt.ErrUnavailable, Err: c.redactError(err)}
	}
	c.noteAnswer(p, resp.StatusCode, h)
	e := envelope{message: resp.Status}
	if resp.Body != nil { // the library has read a part of the body already
		e = readEnvelope(resp.Header, resp.Body, cancel)
		_ = resp.Body.Close()
	}
	v := classifyStatuses(resp.StatusCode, resp.Header, c.kindOf404(p, resp.StatusCode), time.Now())
	return nil, c.refusalError(opEvents, resp.StatusCode, e, v)
}

// eventFrame is the part of a frame that is kept, or the end of the stream. A frame has the
// changes of a transaction, so it may have any size, and up to 256 frames wait to be handled. So
// only the id of an event is kept, and the text of a frame that is short enough to be the echo of
// a probe.
type eventFrame struct {
	text []byte
	id   string
	err  error
}

// maxEcho is more bytes than any probe has.
const maxEcho = 128

// readEventFrame reads a frame. A frame that is neither an event nor short enough for an echo
// counts as a gap.
func readEventFrame(text []byte) eventFrame {
	if len(text) <= maxEcho {
		return eventFrame{text: text}
	}
	id, err := parseEvent(text)
	return eventFrame{id: id, err: err}
}

// subscription is one stream. Only run's goroutine uses it.
type subscription struct {
	client  *Client
	service batch.ServiceID
	yield   func(dlt.Event) error
	conn    *websocket.Conn
	begunAt time.Time
	log     *logWriter // nil means that no log is written

	prober      prober
	rootTracker *rootTracker   // nil means that roots are not followed
	statuses    []batch.Status // to be passed to yield
	hasNews     bool           // true if something changed that has no status
	lastHint    time.Time
}

func (s *subscription) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	frames := make(chan eventFrame, 256)
	done := make(chan struct{})
	var questions sync.WaitGroup
	defer func() {
		cancel()
		_ = s.conn.CloseNow()
		<-done
		questions.Wait()
	}()
	go func() {
		defer close(done)
		s.read(ctx, frames)
	}()
	if err := s.yield(dlt.Event{Service: s.service, Live: true}); err != nil {
		return err
	}
	s.prober = newProber(s.client.options.ProbeInterval)
	answers := make(chan string, 1)
	if s.log != nil {
		if s.client.options.StateNeverReturns {
			s.rootTracker = &rootTracker{retryDelay: s.client.options.ProbeInterval}
			s.log.rootTracker = s.rootTracker
		}
		s.log.open(ctx, s.begunAt)
		defer func() { s.log.close(context.WithoutCancel(ctx)) }()
	}
	tick := time.NewTicker(max(s.client.options.ProbeInterval/5, time.Millisecond))
	defer tick.Stop()
	for {
		if s.rootTracker != nil && s.rootTracker.isDue(time.Now()) {
			s.rootTracker.noteAsked(time.Now())
			questions.Go(func() { answers <- s.askRoot(ctx) })
		}
		if err := s.sendProbes(ctx, len(frames) > 0); err != nil {
			return s.endError(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case root := <-answers:
			s.rootTracker.noteAnswer(root, s.prober.probeCount)
		case f := <-frames:
			if err := s.handleFrames(f, frames); err != nil {
				return s.endError(ctx, err)
			}
		case <-tick.C:
		}
		if err := s.yieldStatuses(); err != nil {
			return err
		}
		if s.rootTracker != nil {
			s.rootTracker.settle(s.prober.provedBy)
			if s.rootTracker.unsettledRoot != "" {
				s.prober.makeDue(time.Now())
			}
		}
		if s.log != nil {
			s.log.renewAndWrite(ctx, &s.prober)
		}
	}
}

// askRoot asks for the root hash of the service's state. It returns "" if there is no answer.
func (s *subscription) askRoot(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, maxPromptAnswer)
	defer cancel()
	st, err := s.client.State(s.service)
	if err != nil {
		return ""
	}
	root, err := st.Root(ctx)
	if err != nil || len(root) > batch.MaxIDLen {
		return ""
	}
	return root
}

// endError returns the error of a stream that broke; nil if the caller has ended it.
func (s *subscription) endError(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return &dlt.Error{Op: opEvents, Kind: dlt.ErrUnavailable, Err: s.client.redactError(err)}
	}
	return nil
}

// read passes frames on until the stream ends. The library answers the server's pings only during
// a Read.
func (s *subscription) read(ctx context.Context, frames chan<- eventFrame) {
	for {
		_, text, err := s.conn.Read(ctx)
		r := eventFrame{err: err}
		if err == nil {
			r = readEventFrame(text)
		}
		select {
		case frames <- r:
		case <-ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// handleFrames handles a frame and the frames that have come since, up to a limit.
func (s *subscription) handleFrames(f eventFrame, more <-chan eventFrame) error {
	for range cap(more) {
		if err := s.handleFrame(f); err != nil {
			return err
		}
		select {
		case f = <-more:
		default:
			return nil
		}
	}
	return s.handleFrame(f)
}

func (s *subscription) handleFrame(f eventFrame) error {
	if f.err != nil {
		return f.err
	}
	id := f.id
	if f.text != nil {
		if s.prober.isEcho(f.text, time.Now()) {
			return nil
		}
		var err error
		if id, err = parseEvent(f.text); err != nil {
			return err // an unreadable event counts as a gap
		}
	}
	s.prober.noteEvent()
	if s.rootTracker != nil {
		s.rootTracker.noteEvent()
	}
	if s.log != nil && isID(id) { // a transaction that passes Check has such an id
		s.log.add(id)
	}
	if known := s.client.sentTransactions.batchOf(s.service, id); known == "" {
		s.hasNews = true
	} else if n := len(s.statuses); n == 0 || s.statuses[n-1].ID != known { // unless another transaction of the batch has added the status
		s.statuses = append(s.statuses, batch.Status{ID: known, Reported: batch.ReportedCommitted})
	}
	return nil
}

// hintInterval is the time between events without statuses: a replay has many old transactions.
const hintInterval = 100 * time.Millisecond

func (s *subscription) yieldStatuses() error {
	if len(s.statuses) > 0 {
		statuses := s.statuses
		s.statuses = nil // the receiver may keep the slice
		if err := s.yield(dlt.Event{Service: s.service, Statuses: statuses}); err != nil {
			return err
		}
	}
	if now := time.Now(); s.hasNews && now.Sub(s.lastHint) >= hintInterval {
		s.hasNews, s.lastHint = false, now
		return s.yield(dlt.Event{Service: s.service})
	}
	return nil
}

// sendProbes sends a probe, if one is due.
func (s *subscription) sendProbes(ctx context.Context, waiting bool) error {
	text, err := s.prober.nextProbe(time.Now(), waiting)
	if err != nil || text == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, []byte(text))
}

// eventJSON is a frame with an event, one for each transaction (docs/ledgers/splinter.md#events).
// The client does not need the event's changes.
type eventJSON struct {
	ID string `json:"id"`
}

// parseEvent returns the transaction's id in an event.
func parseEvent(text []byte) (string, error) {
	var e eventJSON
	if err := json.Unmarshal(text, &e); err != nil {
		return "", fmt.Errorf("splinter: a frame that is no event: %w", err)
	}
	if e.ID == "" {
		return "", errNoEvent
	}
	return strings.Clone(e.ID[:min(len(e.ID), batch.MaxIDLen)]), nil // no transaction of a batch has a longer id
}

var errNoEvent = errors.New("splinter: a frame without the id of a transaction")
