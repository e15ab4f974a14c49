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

// Submit implements [dlt.Submitter]. It posts one batch; a node does not accept a list as a whole
// (docs/ledgers/splinter.md#submitting). nil means HTTP 202, which only says that the node has the
// batch in memory. The error is a [*dlt.Error].
func (c *Client) Submit(ctx context.Context, a batch.Attempt) (err error) {
	if len(a.Payload) == 0 { // a node would answer an empty body with 202
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Message: "the batch has no payload"}
	}
	p, err := c.locate(a.Service)
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: err}
	}
	defer func() { err = dlt.At(p.shownURL, err) }()
	if err := c.holdBack(ctx, p, a.ID); err != nil {
		return err
	}
	for range maxConnectionChecks {
		looked, err := c.checkConnection(ctx, p, a.ID)
		if err != nil {
			return err
		}
		if moved, err := c.postOn(ctx, p, a, looked); !moved {
			return err
		}
	}
	return &dlt.Error{Op: opSubmit, Kind: dlt.ErrUnavailable, Message: "no connection to the node stays the same: nothing was posted"}
}

// postOn posts a batch. looked is the connection that the POST must use; nil means any. If the
// POST gets another connection, nothing of the batch is sent, and moved is true: no node executes
// a request without its body.
func (c *Client) postOn(ctx context.Context, p location, a batch.Attempt, looked net.Conn) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.rootURL.JoinPath("batches").String(), nil)
	if err != nil {
		return false, &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	req.Header["Content-Type"] = []string{"application/octet-stream"}
	body := &batchListBody{head: batchListHeader(len(a.Payload)), payload: a.Payload}
	defer body.release()
	// The request has no GetBody, so that net/http cannot send it again.
	req.Body, req.ContentLength = body, int64(len(body.head)+len(a.Payload))
	var other atomic.Bool
	if looked != nil {
		req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if i.Conn != looked {
				other.Store(true)
				body.release() // before net/http reads the body
			}
		}}))
	}
	// Added before the POST, since the POST's events may come before its answer.
	c.sentTransactions.add(a.Key, transactionIDs(a.Payload))
	resp, err := c.exchange(req, opSubmit, p) //nolint:bodyclose // drain closes it
	if err != nil {
		return other.Load(), err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode == http.StatusAccepted {
		return false, nil
	}
	e := readEnvelope(resp.Header, resp.Body, cancel)
	v := classify(resp.StatusCode, e, resp.Header, c.kindOf404(p, resp.StatusCode), time.Now())
	return false, c.refusalError(opSubmit, resp.StatusCode, e, v)
}

// checkConnection asks a suspected node for a status before a POST, and returns the connection
// that has answered. It returns nil if the node is not suspected, or the connection is not known.
// A POST that no thread reads is in doubt, and may be executed minutes later.
func (c *Client) checkConnection(ctx context.Context, p location, id batch.ID) (looked net.Conn, err error) {
	if !isID(string(id)) {
		return nil, nil //nolint:nilnil // nil means any connection
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { looked = i.Conn }})
	for range maxConnectionChecks {
		if !c.requestsOf(p.node).isSuspect(time.Now()) {
			return nil, nil //nolint:nilnil // nil means any connection
		}
		if _, err = c.ask(traced, p, []batch.ID{id}); err == nil {
			return looked, nil
		}
	}
	return nil, &dlt.Error{Op: opSubmit, Kind: dlt.ErrUnavailable, Message: c.redactText("no connection to the node answers: " + err.Error())}
}

// kindOf404 returns the kind of error for a 404; nil for any other status.
func (c *Client) kindOf404(p location, status int) error {
	if status != http.StatusNotFound {
		return nil
	}
	return c.absentServices.kindOf404(p, time.Now())
}

// batchListHeader returns the bytes that come before a serialized Batch in a BatchList of that
// batch alone.
func batchListHeader(payload int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(payload))
}

// transactionIDs returns the ids of the transactions in a serialized Batch, as far as the payload
// can be read.
func transactionIDs(payload []byte) (ids []string) {
	eachBytesField(payload, 3, func(tx []byte) {
		eachBytesField(tx, 2, func(id []byte) {
			if isID(string(id)) {
				ids = append(ids, string(id))
			}
		})
	})
	return ids
}

// eachBytesField calls f with each field of bytes that has this number.
func eachBytesField(b []byte, number protowire.Number, f func([]byte)) {
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

// batchListBody reads a serialized Batch as a BatchList of one, without copying it. net/http may
// read a body even after the response has come. release ends that, since the payload belongs to
// the caller again when Submit returns.
type batchListBody struct {
	mu            sync.Mutex
	head, payload []byte
	isReleased    bool
}

var errReleased = errors.New("splinter: the request is over")

// Read implements [io.Reader].
func (f *batchListBody) Read(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isReleased {
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
func (f *batchListBody) Close() error {
	f.release()
	return nil
}

func (f *batchListBody) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head, f.payload, f.isReleased = nil, nil, true
}
