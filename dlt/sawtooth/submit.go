package sawtooth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Submit implements [dlt.Submitter]. nil means HTTP 202: the node has the batch in
// memory, no more. The error is a [*dlt.Error]. Where the node could not be reached,
// the next Submit goes to the next fallback; this one ends.
func (c *Client) Submit(ctx context.Context, a batch.Attempt) error {
	i := c.preferred.Load()
	err := dlt.At(c.endpoints[i].batches, c.submit(ctx, c.endpoints[i], a.Payload))
	if len(c.endpoints) == 1 {
		return err
	}
	if kind := dlt.Kind(err); err == nil || kind == batch.KindDoubt {
		c.sent.add(a.ID, i)
	} else if kind == batch.KindUnavailable && !errors.Is(err, context.Canceled) && !errors.Is(err, errNotTried) {
		next := (i + 1) % uint32(len(c.endpoints))
		c.preferred.CompareAndSwap(i, next)
	}
	return err
}

const opSubmit = "submit"

func (c *Client) submit(ctx context.Context, e endpoint, payload []byte) error {
	if len(payload) == 0 {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Message: "the batch has no payload"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newPost(ctx, e.batches, "application/octet-stream")
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: c.cause(err)}
	}
	body := &frame{head: listHeader(len(payload)), payload: payload}
	defer body.release()
	// There is no GetBody: net/http must have no way of sending it again.
	req.Body, req.ContentLength = body, int64(listSize(len(payload)))
	resp, err := c.exchange(req, opSubmit) //nolint:bodyclose // drain closes it
	if err != nil {
		return err
	}
	defer drain(resp.Body, cancel)
	var env envelope
	if resp.StatusCode != http.StatusAccepted {
		env = readEnvelope(resp.Header, resp.Body, cancel)
	}
	v := classify(resp.StatusCode, env.code, resp.Header, env.isJSON, time.Now())
	if v.kind == nil {
		return nil
	}
	return c.refusal(opSubmit, resp, env, v)
}

// frame reads a serialized Batch as the BatchList of one, without a copy of it.
// net/http may go on reading a body after the response is there; release ends
// that, since the payload belongs to the caller again when Submit returns.
type frame struct {
	mu            sync.Mutex
	head, payload []byte
	released      bool
}

var errReleased = errors.New("sawtooth: the request is over")

// Read implements [io.Reader].
func (f *frame) Read(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released {
		return 0, errReleased
	}
	n = copy(p, f.head)
	f.head = f.head[n:]
	m := copy(p[n:], f.payload)
	f.payload = f.payload[m:]
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
