package canton

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// subprotocol is in every answer of a participant, so the client has to offer it
// (docs/ledgers/canton.md#completions). The token is sent in the header, which takes precedence.
const subprotocol = "daml.ws.auth"

// refusalTimeout is how long the client waits for a refusal of a stream that a participant has
// opened: an error comes as the first frame.
const refusalTimeout = 50 * time.Millisecond

// Events implements [dlt.Ledger]: it opens the WebSocket stream of completions of one service, a
// party, from the ledger's present end on. For a commit or rejection of this client's batches it
// yields an event with the status, and for an unclear outcome an event without a status. A stream
// without a frame for Options.StreamSilence is broken. Errors are [*dlt.Error]s or yield's.
func (c *Client) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	if len(services) != 1 {
		return &dlt.Error{Op: opEvents, Kind: dlt.ErrMisconfigured, Message: "a stream is of one service"}
	}
	err := c.stream(ctx, services[0], yield)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the caller has ended it
	}
	return err
}

func (c *Client) stream(ctx context.Context, service batch.ServiceID, yield func(dlt.Event) error) error {
	conn, token, err := c.openStream(ctx, service)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }() // the connection may have ended already

	ctx, cancel := context.WithCancel(ctx)
	frames := make(chan frame)
	read := make(chan struct{})
	go func() {
		defer close(read)
		readFrames(ctx, conn, frames)
	}()
	defer func() {
		cancel()
		_ = conn.CloseNow()
		<-read
	}()
	return c.followFrames(ctx, service, frames, token, yield)
}

// handshakeTimeout limits the opening of a stream.
const handshakeTimeout = 15 * time.Second

// openStream opens the stream of a service's completions from the ledger's present end on.
func (c *Client) openStream(ctx context.Context, service batch.ServiceID) (*websocket.Conn, requestSecrets, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	// The end is read before the stream is opened: the stream has all completions after it.
	end, err := c.ledgerEnd(ctx, opEvents)
	if err != nil {
		return nil, requestSecrets{}, err
	}
	request, err := json.Marshal(c.completionRequest(service, end))
	if err != nil {
		return nil, requestSecrets{}, fmt.Errorf("canton: encode request: %w", err)
	}
	conn, token, err := c.dial(ctx)
	if err != nil {
		return nil, requestSecrets{}, err
	}
	conn.SetReadLimit(c.maxResponse)
	if err := conn.Write(ctx, websocket.MessageText, request); err != nil {
		_ = conn.CloseNow() // the connection has failed already
		return nil, requestSecrets{}, &dlt.Error{Op: opEvents, Err: token.redactError(err)}
	}
	return conn, token, nil
}

// dial opens the socket.
func (c *Client) dial(ctx context.Context) (*websocket.Conn, requestSecrets, error) {
	h := maps.Clone(c.header)
	if h == nil {
		h = http.Header{}
	}
	token, err := c.authorize(ctx, h, opEvents)
	if err != nil {
		return nil, requestSecrets{}, err
	}
	conn, resp, err := websocket.Dial(ctx, c.endpoint.completionsURL, &websocket.DialOptions{ //nolint:bodyclose // the library has closed it
		HTTPClient: c.http, HTTPHeader: h, Subprotocols: []string{subprotocol},
	})
	switch {
	case err == nil:
		return conn, token, nil
	case resp == nil || resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, requestSecrets{}, &dlt.Error{Op: opEvents, Kind: dlt.ErrUnavailable, Err: token.redactError(err)}
	}
	e := readEnvelope(resp.Header, resp.Body, func() {})
	return nil, requestSecrets{}, refusalError(opEvents, httpReply{resp, token}, e, readKind(resp.StatusCode, e))
}

type frame struct {
	text []byte
	err  error
}

// readFrames passes frames on until a frame is an error or ctx is done. Reading also answers
// pings.
func readFrames(ctx context.Context, conn *websocket.Conn, frames chan<- frame) {
	for {
		_, text, err := conn.Read(ctx)
		select {
		case frames <- frame{text, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (c *Client) followFrames(ctx context.Context, service batch.ServiceID, frames <-chan frame, token requestSecrets, yield func(dlt.Event) error) error {
	settled := time.NewTimer(refusalTimeout)
	defer settled.Stop()
	silence := time.NewTimer(c.streamSilence)
	defer silence.Stop()
	live := false
	announce := func() error {
		if live {
			return nil
		}
		live = true
		return yield(dlt.Event{Service: service, Live: true})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settled.C:
			if err := announce(); err != nil {
				return err
			}
		case <-silence.C:
			return &dlt.Error{Op: opEvents, Message: "no frame for " + c.streamSilence.String()}
		case f := <-frames:
			if f.err != nil {
				return &dlt.Error{Op: opEvents, Err: token.redactError(f.err)}
			}
			e, err := parseElement(f.text)
			if err != nil {
				return &dlt.Error{Op: opEvents, Err: token.redactError(err)}
			}
			if e.failure != nil {
				return &dlt.Error{
					Op: opEvents, Code: max(e.failure.grpcCode, 0), Message: token.redactText(e.failure.shownText()),
					Kind: readKind(http.StatusInternalServerError, envelope{participantError: *e.failure, isParticipants: true}),
				}
			}
			silence.Reset(c.streamSilence)
			if err := announce(); err != nil {
				return err
			}
			if err := c.yieldOutcome(service, e, yield); err != nil {
				return err
			}
		}
	}
}

// yieldOutcome yields the outcome in a completion, if it is about one of this client's batches.
func (c *Client) yieldOutcome(service batch.ServiceID, e element, yield func(dlt.Event) error) error {
	x := e.completion
	if x == nil || attemptOf(x.CommandID, x.SubmissionID) == 0 || !x.isOf(c.userID, string(service)) {
		return nil
	}
	v := x.verdict()
	event := dlt.Event{Service: service}
	switch v.reported {
	case batch.ReportedCommitted, batch.ReportedFailed, batch.ReportedInvalid:
		event.Statuses = []batch.Status{{ID: batch.ID(x.CommandID), Reported: v.reported, Attempt: v.attempt, Message: v.message}}
	}
	return yield(event)
}
