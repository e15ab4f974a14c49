package splinter

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const opSubmit = "submit"

// Submit implements [dlt.Submitter]. It posts one batch; a node does not accept a list as a
// whole (docs/ledgers/splinter.md#submitting). nil means HTTP 202: the node has the batch in
// memory, no more. The error is a [*dlt.Error].
func (c *Client) Submit(ctx context.Context, a batch.Attempt) (err error) {
	if len(a.Payload) == 0 { // a node answers 202 to an empty body
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Message: "the batch has no payload"}
	}
	p, err := c.place(a.Service)
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: err}
	}
	defer func() { err = dlt.At(p.shown, err) }()
	if err := c.holdBack(ctx, p, a.ID); err != nil {
		return err
	}
	for range looks {
		looked, err := c.lookBefore(ctx, p, a.ID)
		if err != nil {
			return err
		}
		if moved, err := c.postOn(ctx, p, a, looked); !moved {
			return err
		}
	}
	return &dlt.Error{Op: opSubmit, Kind: dlt.ErrUnavailable, Message: "no connection to the node stays the same: nothing was posted"}
}

// postOn posts a batch. looked is the connection that it must take, nil for any. If it gets
// another one, nothing of the batch is sent, and moved is true: no node executes a request without
// its body.
func (c *Client) postOn(ctx context.Context, p place, a batch.Attempt, looked net.Conn) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.root.JoinPath("batches").String(), nil)
	if err != nil {
		return false, &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: c.cause(err)}
	}
	req.Header["Content-Type"] = []string{"application/octet-stream"}
	body := &frame{head: listHeader(len(a.Payload)), payload: a.Payload}
	defer body.release()
	// No GetBody: net/http must be unable to send it again.
	req.Body, req.ContentLength = body, int64(len(body.head)+len(a.Payload))
	var other atomic.Bool
	if looked != nil {
		req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if i.Conn != looked {
				other.Store(true)
				body.release() // before net/http reads it
			}
		}}))
	}
	// Before the POST, since its events may come before its answer.
	c.sent.add(a.Key, transactionIDs(a.Payload))
	resp, err := c.exchange(req, opSubmit, p) //nolint:bodyclose // drain closes it
	if err != nil {
		return other.Load(), err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode == http.StatusAccepted {
		return false, nil
	}
	e := readEnvelope(resp.Header, resp.Body, cancel)
	v := classify(resp.StatusCode, e, resp.Header, c.absence(p, resp.StatusCode), time.Now())
	return false, c.refusal(opSubmit, resp.StatusCode, e, v)
}

// lookBefore asks a suspected node for a status before a POST, and returns the connection that
// answered; nil if the node is not suspected, or the connection is not known. A POST that no
// thread reads is in doubt, and may be executed minutes later.
func (c *Client) lookBefore(ctx context.Context, p place, id batch.ID) (looked net.Conn, err error) {
	if !isID(string(id)) {
		return nil, nil //nolint:nilnil // any connection will do
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { looked = i.Conn }})
	for range looks {
		if !c.stalls(p.node).suspected(time.Now()) {
			return nil, nil //nolint:nilnil // any connection will do
		}
		if _, err = c.ask(traced, p, []batch.ID{id}); err == nil {
			return looked, nil
		}
	}
	return nil, &dlt.Error{Op: opSubmit, Kind: dlt.ErrUnavailable, Message: c.show("no connection to the node answers: " + err.Error())}
}

// absence returns the meaning of a 404, and nil for any other status.
func (c *Client) absence(p place, status int) error {
	if status != http.StatusNotFound {
		return nil
	}
	return c.absent.kind(p, time.Now())
}

// listHeader returns the bytes before a serialized Batch that make it a BatchList of one.
func listHeader(payload int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(payload))
}

// transactionIDs returns the ids of a serialized Batch's transactions, as far as the payload
// is one.
func transactionIDs(payload []byte) (ids []string) {
	fields(payload, 3, func(tx []byte) {
		fields(tx, 2, func(id []byte) {
			if isID(string(id)) {
				ids = append(ids, string(id))
			}
		})
	})
	return ids
}

// fields calls f with every bytes field of the number.
func fields(b []byte, number protowire.Number, f func([]byte)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return
		}
		if num == number && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			f(v)
		}
		b = b[n:]
	}
}

// frame reads a serialized Batch as a BatchList of one, without copying it. net/http may go on
// reading a body after the response came. release ends that, since the payload belongs to the
// caller again when Submit returns.
type frame struct {
	mu            sync.Mutex
	head, payload []byte
	released      bool
}

var errReleased = errors.New("splinter: the request is over")

// Read implements [io.Reader].
func (f *frame) Read(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released {
		return 0, errReleased
	}
	n = copy(p, f.head)
	head := f.head[n:]
	m := copy(p[n:], f.payload)
	f.head, f.payload = head, f.payload[m:]
	if n += m; n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (f *frame) Close() error {
	f.release()
	return nil
}

func (f *frame) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head, f.payload, f.released = nil, nil, true
}
