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
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// Submit implements [dlt.Submitter]. nil means HTTP 202, which only says that the node has the
// batch in memory. The error is a [*dlt.Error]. If the node could not be reached, or has left the
// batch in doubt three times in a row, this Submit fails and the next one goes to the next
// fallback.
func (c *Client) Submit(ctx context.Context, a batch.Attempt) error {
	return c.submitTo(ctx, []batch.Attempt{a})
}

// SubmitList implements [dlt.Ledger]: it makes one POST of a BatchList, which a node
// accepts as a whole or not at all. A refusal does not name the batch at fault
// (docs/ledgers/sawtooth.md#submitting). The node keeps the order of the list
// (docs/ledgers/sawtooth.md#order).
func (c *Client) SubmitList(ctx context.Context, list []batch.Attempt) error {
	if len(list) == 0 {
		return nil
	}
	return c.submitTo(ctx, list)
}

func (c *Client) submitTo(ctx context.Context, list []batch.Attempt) error {
	i := c.preferred.Load()
	err := dlt.At(c.endpoints[i].name+"/batches", c.submit(ctx, c.endpoints[i], list))
	if len(c.endpoints) == 1 {
		return err
	}
	kind, ended := dlt.Kind(err), errors.Is(err, context.Canceled)
	if err == nil || kind == batch.KindDoubt {
		for _, a := range list {
			c.sentTo.add(a.ID, i)
		}
	}
	again := !ended && c.doubtCounters[i].Add(list[0].Key, err)
	if again || kind == batch.KindUnavailable && !ended && !errors.Is(err, errNotTried) {
		next := (i + 1) % uint32(len(c.endpoints))
		c.preferred.CompareAndSwap(i, next)
	}
	return err
}

const opSubmit = "submit"

func (c *Client) submit(ctx context.Context, e endpoint, list []batch.Attempt) error {
	size := 0
	body := &batchListBody{unread: make([][]byte, 0, 2*len(list))}
	for _, a := range list {
		if len(a.Payload) == 0 {
			return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Message: "the batch has no payload"}
		}
		size += batchListSize(len(a.Payload))
		body.unread = append(body.unread, batchListHeader(len(a.Payload)), a.Payload)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newPost(ctx, e.batches, "application/octet-stream")
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	defer body.release()
	// The request has no GetBody, so that net/http cannot send it again.
	req.Body, req.ContentLength = body, int64(size)
	resp, err := c.exchange(req, opSubmit) //nolint:bodyclose // drain closes it
	if err != nil {
		return err
	}
	defer wire.Drain(resp.Body, cancel)
	var env answerEnvelope
	if resp.StatusCode != http.StatusAccepted {
		env = readEnvelope(resp.Header, resp.Body, cancel)
	}
	v := classify(resp.StatusCode, env.code, resp.Header, env.bodyForm, time.Now())
	if v.Kind == nil {
		return nil
	}
	return c.refusalError(opSubmit, resp, env, v)
}

// batchListBody reads serialized Batches as a BatchList, without copying them. net/http may read a
// body even after the response has come. release ends that, since the payloads belong to the
// caller again when Submit returns.
type batchListBody struct {
	mu         sync.Mutex
	unread     [][]byte // the unread rest, in turns the header of a payload and the payload
	isReleased bool
}

var errReleased = errors.New("sawtooth: the request is over")

// Read implements [io.Reader].
func (f *batchListBody) Read(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isReleased {
		return 0, errReleased
	}
	for len(f.unread) > 0 && n < len(p) {
		m := copy(p[n:], f.unread[0])
		n += m
		if f.unread[0] = f.unread[0][m:]; len(f.unread[0]) == 0 {
			f.unread = f.unread[1:]
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer]. It does nothing, because Submit calls release.
func (f *batchListBody) Close() error { return nil }

func (f *batchListBody) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unread, f.isReleased = nil, true
}
