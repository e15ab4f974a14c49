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

// handshakeTimeout limits the opening of a stream at one node, for which a node has little to do.
const handshakeTimeout = 15 * time.Second

// unusedAddress is an address that no family uses. A subscriber to it gets all blocks, but no
// state changes, which are not needed and may be large (docs/ledgers/sawtooth.md#events).
var unusedAddress = strings.Repeat("f", addressLen)

// Events implements [dlt.Ledger]. It subscribes to the blocks of the node for submissions, or of
// the first node after it that can be reached. Blocks do not name their batches, so every event
// means "ask now" and carries no status; blocks that come while yield is busy give one event. If
// the chain of blocks has a gap, or a fork replaced a part of it, the event has Live set, since
// blocks were missed. Events does not notice a node that stops sending events while its websocket
// stays open, but the engine still polls. Events ignores services. Errors are [*dlt.Error]s,
// except yield's (docs/ledgers/sawtooth.md#events).
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
		conn: conn, pingInterval: c.pingInterval,
		opening: make(chan struct{}, 1), changes: make(chan struct{}, 1), failure: make(chan error, 2),
	}
	// The inner context ends a little after ctx, so that unsubscribe can be sent.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		s.unsubscribe(inner)
		cancel()
		_ = conn.CloseNow() // the connection may have ended already
	}()
	wg.Go(func() { s.failure <- s.read(inner) })
	wg.Go(func() { s.failure <- s.keepAlive(inner) })
	if err := s.passEvents(ctx, yield); err != nil {
		if e, ok := errors.AsType[*streamError](err); ok {
			return &dlt.Error{Op: opEvents, Kind: dlt.ErrDoubt, Err: c.redactError(e.err)}
		}
		return err
	}
	return nil
}

// subscribe opens a websocket to the first reachable node and sends "subscribe", which nodes
// never acknowledge.
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
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := c.dial(ctx, target)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(c.maxResponse)
	text := `{"action":"subscribe","address_prefixes":["` + unusedAddress + `"]}`
	if err = conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		_ = conn.CloseNow() // the connection has failed already
		return nil, &dlt.Error{Op: opEvents, Kind: dlt.ErrDoubt, Err: c.redactError(err)}
	}
	return conn, nil
}

func (c *Client) dial(ctx context.Context, target string) (*websocket.Conn, error) {
	ctx, sent := wire.TraceRequest(ctx, c.ownTransport)
	conn, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: c.header}) //nolint:bodyclose // as it says, never needed
	switch {
	case err == nil:
		return conn, nil
	case resp == nil:
		return nil, &dlt.Error{Op: opEvents, Kind: wire.KindOf(err, sent()), Err: c.redactError(err)}
	case resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil:
		return nil, &dlt.Error{Op: opEvents, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.redactError(err)}
	}
	body, _ := io.ReadAll(resp.Body) // at most a kilobyte, which is in memory already
	e := parseEnvelope(resp.Header.Get("Content-Type"), body)
	return nil, c.refusalError(opEvents, resp, e, classifyStatuses(resp.StatusCode, e.code, resp.Header, time.Now()))
}

// stream is one subscription. Reading a message only leaves a note for passEvents, so that a slow
// yield does not delay the reading of pongs.
type stream struct {
	conn         *websocket.Conn
	pingInterval time.Duration

	opened  sync.Once
	opening chan struct{} // gets a note when the subscription works, or when something was missed
	changes chan struct{} // gets a note when there is a new block
	failure chan error    // gets the error that ends the stream
}

// streamError marks an error that did not come from yield.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a note already
	}
}

// noteOpened notes that the subscription works, at the first block or the first pong.
func (s *stream) noteOpened() { s.opened.Do(func() { wakeUp(s.opening) }) }

// passEvents turns the notes into events for yield, until ctx is done or the stream has ended.
func (s *stream) passEvents(ctx context.Context, yield func(dlt.Event) error) error {
	changed := (chan struct{})(nil) // nil until the Live event was passed
	for {
		e := dlt.Event{}
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failure:
			if ctx.Err() == nil {
				return &streamError{err}
			}
			return nil // even if the stream broke at the same time
		case <-s.opening:
			e.Live = true
			changed = s.changes
		case <-changed:
		}
		if err := yield(e); err != nil {
			return err
		}
	}
}

// unsubscribe tells the node that the client leaves: an older node that goes on sending to a
// client that has left may stop sending to all others (docs/ledgers/sawtooth.md#events).
func (s *stream) unsubscribe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second/2)
	defer cancel()
	_ = s.conn.Write(ctx, websocket.MessageText, []byte(`{"action":"unsubscribe"}`)) // the socket may be dead
}

// keepAlive pings the node, which keeps the stream alive, and ends the stream when no answer comes
// in time. A node answers the first ping after it has processed the earlier messages, so this
// answer acknowledges the subscription. Nothing else does.
func (s *stream) keepAlive(ctx context.Context) error {
	tick := time.NewTicker(s.pingInterval)
	defer tick.Stop()
	for first := true; ; first = false {
		bound, cancel := context.WithTimeout(ctx, s.pingInterval)
		err := s.conn.Ping(bound)
		cancel()
		if err != nil {
			return err
		}
		if first {
			s.noteOpened()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// read reads the node's messages, and leaves notes of them, until the socket ends.
func (s *stream) read(ctx context.Context) error {
	var chain lastBlock
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
		if f.isWarning {
			continue // the next block shows whether a block was missed here
		}
		switch chain.linkOf(f) {
		case firstBlock:
			s.noteOpened()
			wakeUp(s.changes)
		case nextBlock:
			wakeUp(s.changes)
		case missingBlock:
			wakeUp(s.opening)
		case sameBlock:
		}
	}
}

// eventMessage is a node's message: a block, or a warning.
type eventMessage struct {
	id, previousID string
	isWarning      bool
}

// decodeMessage reads a message (docs/ledgers/sawtooth.md#events). It ignores fork_detected,
// which compares numbers as text.
func decodeMessage(text []byte) (eventMessage, error) {
	var doc struct {
		BlockID  string `json:"block_id"`
		Previous string `json:"previous_block_id"`
		Warning  string `json:"warning"`
		Error    string `json:"error"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return eventMessage{}, err
	}
	switch {
	case doc.Error != "":
		return eventMessage{}, errors.New("the node says: " + batch.Excerpt(doc.Error, maxText))
	case doc.Warning != "":
		return eventMessage{isWarning: true}, nil
	case doc.BlockID == "":
		return eventMessage{}, errors.New("the message is no event of a block")
	}
	return eventMessage{id: doc.BlockID, previousID: doc.Previous}, nil
}

// lastBlock remembers the id of the last block that was reported.
type lastBlock struct{ id string }

// blockLink is the relation of a block to the last one.
type blockLink uint8

const (
	firstBlock blockLink = iota
	nextBlock
	sameBlock    // the same block was reported twice
	missingBlock // blocks in between are missing, or a fork has begun
)

func (c *lastBlock) linkOf(f eventMessage) blockLink {
	last := c.id
	c.id = f.id
	switch last {
	case "":
		return firstBlock
	case f.id:
		return sameBlock
	case f.previousID:
		return nextBlock
	}
	return missingBlock
}
