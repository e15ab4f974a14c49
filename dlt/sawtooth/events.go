package sawtooth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const opEvents = "events"

// handshake bounds the opening of a stream at one node, which has little to do for it.
const handshake = 15 * time.Second

// nowhere is an address that no family uses. Whoever subscribes to it is told of all
// blocks, and of no changes of state, which are not needed and may be large
// (docs/ledgers/sawtooth.md#events).
var nowhere = strings.Repeat("f", addressLen)

// Events implements [dlt.EventSource]: it subscribes to the blocks of the node that
// is submitted to, or of the first after it that can be reached. Blocks do not tell
// which batches they hold, so every event says "ask now" and carries no status; those
// that come while yield is busy are told as one. Where the chain of blocks has a
// gap, or a fork took its place, the event has Live set, since something was
// missed. Events that a node stops sending while its websocket lives are not missed
// here: polling goes on. services do not matter. Errors, but yield's, are
// [*dlt.Error]s (docs/ledgers/sawtooth.md#events).
func (c *Client) Events(ctx context.Context, _ []batch.ServiceID, yield func(dlt.Event) error) error {
	conn, err := c.subscribe(ctx)
	if ctx.Err() != nil {
		if conn != nil {
			_ = conn.CloseNow()
		}
		return nil
	}
	if err != nil {
		return err
	}
	s := &stream{
		conn: conn, alive: c.alive,
		live: make(chan struct{}, 1), changed: make(chan struct{}, 1), broken: make(chan error, 2),
	}
	// It goes on a little after ctx, to say goodbye.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		s.leave(inner)
		cancel()
		_ = conn.CloseNow() // it may have ended by itself
	}()
	wg.Go(func() { s.broken <- s.read(inner) })
	wg.Go(func() { s.broken <- s.ping(inner) })
	if err := s.tell(ctx, yield); err != nil {
		if e, ok := errors.AsType[*streamError](err); ok {
			return &dlt.Error{Op: opEvents, Kind: dlt.ErrDoubt, Err: c.cause(e.err)}
		}
		return err
	}
	return nil
}

// subscribe opens a websocket to the first node that can be reached and says
// "subscribe", which is never acknowledged.
func (c *Client) subscribe(ctx context.Context) (*websocket.Conn, error) {
	first := int(c.preferred.Load())
	var errs []error
	for i := range c.endpoints {
		conn, err := c.subscribeAt(ctx, c.endpoints[(first+i)%len(c.endpoints)].subscriptions)
		if err == nil {
			return conn, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (c *Client) subscribeAt(ctx context.Context, target string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	conn, err := c.dial(ctx, target)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(c.maxReply)
	text := `{"action":"subscribe","address_prefixes":["` + nowhere + `"]}`
	if err = conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		_ = conn.CloseNow() // it has failed already
		return nil, &dlt.Error{Op: opEvents, Kind: dlt.ErrDoubt, Err: c.cause(err)}
	}
	return conn, nil
}

func (c *Client) dial(ctx context.Context, target string) (*websocket.Conn, error) {
	ctx, unsent := wire.Trace(ctx, c.direct)
	conn, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: c.header}) //nolint:bodyclose // as it says, never needed
	switch {
	case err == nil:
		return conn, nil
	case resp == nil:
		return nil, &dlt.Error{Op: opEvents, Kind: wire.Kind(err, unsent()), Err: c.cause(err)}
	case resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil:
		return nil, &dlt.Error{Op: opEvents, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.cause(err)}
	}
	body, _ := io.ReadAll(resp.Body) // a kilobyte of it, and all in memory
	e := parseEnvelope(resp.Header.Get("Content-Type"), body)
	return nil, c.refusal(opEvents, resp, e, classifyStatuses(resp.StatusCode, e.code, resp.Header, time.Now()))
}

// stream is one subscription at work. What is read is only noted, so that a slow
// yield never keeps pongs from being read.
type stream struct {
	conn  *websocket.Conn
	alive time.Duration

	opened  sync.Once
	live    chan struct{} // the subscription stands, or something was missed
	changed chan struct{} // there is a new block
	broken  chan error    // what ended the stream
}

// streamError marks what did not come from yield.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

func note(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is noted already
	}
}

// open notes that the subscription stands: the first block or the first pong says so.
func (s *stream) open() { s.opened.Do(func() { note(s.live) }) }

// tell hands on what was noted, until ctx is done or the stream is over.
func (s *stream) tell(ctx context.Context, yield func(dlt.Event) error) error {
	changed := (chan struct{})(nil) // Live comes first
	for {
		e := dlt.Event{}
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.broken:
			if ctx.Err() == nil {
				return &streamError{err}
			}
			return nil // whatever went with it
		case <-s.live:
			e.Live = true
			changed = s.changed
		case <-changed:
		}
		if err := yield(e); err != nil {
			return err
		}
	}
}

// leave says goodbye: an older node that goes on telling a peer who is gone may stop
// telling all the others (docs/ledgers/sawtooth.md#events).
func (s *stream) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second/2)
	defer cancel()
	_ = s.conn.Write(ctx, websocket.MessageText, []byte(`{"action":"unsubscribe"}`)) // the socket may be dead
}

// ping keeps the stream alive, and ends it when no answer comes in time. A node
// answers the first ping after it has dealt with what was said before, so that the
// answer does for the acknowledgement that a subscription does not get.
func (s *stream) ping(ctx context.Context) error {
	tick := time.NewTicker(s.alive)
	defer tick.Stop()
	for first := true; ; first = false {
		bound, cancel := context.WithTimeout(ctx, s.alive)
		err := s.conn.Ping(bound)
		cancel()
		if err != nil {
			return err
		}
		if first {
			s.open()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// read notes what the node says until the socket ends.
func (s *stream) read(ctx context.Context) error {
	var chain blockChain
	for {
		kind, text, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			return errors.New("the node said something that is no text")
		}
		f, err := decodeMessage(text)
		if err != nil {
			return err
		}
		if f.warning {
			continue // what is missed meanwhile shows in the next block
		}
		switch chain.add(f) {
		case firstBlock:
			s.open()
			note(s.changed)
		case nextBlock:
			note(s.changed)
		case gap:
			note(s.live)
		case sameBlock:
		}
	}
}

// message is what a node says: a block, or a warning.
type message struct {
	id, previous string
	warning      bool
}

// decodeMessage reads a message (docs/ledgers/sawtooth.md#events). fork_detected is not looked
// at: it compares numbers as text.
func decodeMessage(text []byte) (message, error) {
	var doc struct {
		BlockID  string `json:"block_id"`
		Previous string `json:"previous_block_id"`
		Warning  string `json:"warning"`
		Error    string `json:"error"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return message{}, err
	}
	switch {
	case doc.Error != "":
		return message{}, errors.New("the node says: " + batch.Excerpt(doc.Error, maxText))
	case doc.Warning != "":
		return message{warning: true}, nil
	case doc.BlockID == "":
		return message{}, errors.New("the message is no event of a block")
	}
	return message{id: doc.BlockID, previous: doc.Previous}, nil
}

// blockChain is the last block that was told.
type blockChain struct{ last string }

// link says how a block follows the last one.
type link uint8

const (
	firstBlock link = iota
	nextBlock
	sameBlock // told twice
	gap       // blocks between are missing, or a fork has begun
)

func (c *blockChain) add(f message) link {
	last := c.last
	c.last = f.id
	switch last {
	case "":
		return firstBlock
	case f.id:
		return sameBlock
	case f.previous:
		return nextBlock
	}
	return gap
}
