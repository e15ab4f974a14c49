package sawtooth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// maxIDs is the largest number of ids in one request
// (docs/ledgers/sawtooth.md#asking-for-statuses).
const maxIDs = 50

const opStatuses = "batch statuses"

// BatchStatuses implements [dlt.BatchStatusReader]. It ignores the service. An id that is not
// 128 lower-case hex digits is never sent and has no answer: it would fail the whole request.
// Errors are [*dlt.Error]s, joined if several nodes were asked; the answers that come with an
// error are good.
func (c *Client) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	out, err := c.statuses(ctx, validIDs(attempts))
	if c.fetchesReceipts {
		c.addReceipts(ctx, out, slices.ContainsFunc(attempts, func(a batch.Attempt) bool { return !a.Committed }))
	}
	return out, err
}

func (c *Client) statuses(ctx context.Context, ids []batch.ID) ([]batch.Status, error) {
	if len(c.endpoints) == 1 {
		return c.ask(ctx, 0, ids)
	}
	groups := make(map[uint64][]batch.ID)
	for _, id := range ids {
		mask := c.sentTo.mask(id)
		if mask == 0 {
			mask = c.allEndpoints()
		}
		groups[mask] = append(groups[mask], id)
	}
	// The endpoints are asked at once, so that a node that hangs does not delay the others'
	// answers.
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		out  []batch.Status
		errs []error
	)
	for mask, group := range groups {
		wg.Go(func() {
			statuses, err := c.askRouted(ctx, mask, group)
			mu.Lock()
			defer mu.Unlock()
			out, errs = append(out, statuses...), append(errs, err)
		})
	}
	wg.Wait()
	for _, s := range out {
		if s.Reported == batch.ReportedCommitted || s.Reported == batch.ReportedInvalid {
			c.sentTo.forget(s.ID)
		}
	}
	return out, errors.Join(errs...)
}

// validIDs returns the ids that a node accepts, each once.
func validIDs(attempts []batch.Attempt) []batch.ID {
	ids := make([]batch.ID, 0, len(attempts))
	seen := make(map[batch.ID]struct{}, len(attempts))
	for _, a := range attempts {
		if _, twice := seen[a.ID]; !twice && isID(string(a.ID)) {
			seen[a.ID] = struct{}{}
			ids = append(ids, a.ID)
		}
	}
	return ids
}

func (c *Client) allEndpoints() uint64 { return ^uint64(0) >> (maxEndpoints - len(c.endpoints)) }

// askRouted asks the endpoints of the mask, to which the batches were sent. It asks the other
// endpoints only if none of these can be reached: nodes gossip batches, so the others may know
// them.
func (c *Client) askRouted(ctx context.Context, mask uint64, ids []batch.ID) ([]batch.Status, error) {
	out, unreachable, err := c.askAll(ctx, mask, ids)
	if rest := c.allEndpoints() &^ mask; unreachable && rest != 0 {
		var restErr error
		if out, unreachable, restErr = c.askAll(ctx, rest, ids); !unreachable {
			return out, restErr
		}
		err = errors.Join(err, restErr)
	}
	return out, err
}

// askAll asks every endpoint of the mask, and takes the strongest answer about each batch. The
// error is nil if every id has an answer. unreachable is true if no endpoint of the mask could be
// reached.
func (c *Client) askAll(ctx context.Context, mask uint64, ids []batch.ID) (out []batch.Status, unreachable bool, err error) {
	type reply struct {
		statuses []batch.Status
		err      error
	}
	to := c.endpoints[c.preferred.Load()].name
	replies := make([]reply, len(c.endpoints))
	var wg sync.WaitGroup
	for i := range c.endpoints {
		if mask&(1<<i) != 0 {
			wg.Go(func() { replies[i].statuses, replies[i].err = c.ask(ctx, i, ids) })
		}
	}
	wg.Wait()

	best := make(map[batch.ID]batch.Status, len(ids))
	var errs []error
	open, down := false, 0 // open: a node that gave no answer may know more
	for i := range c.endpoints {
		r := replies[i]
		for _, s := range r.statuses {
			if s.Endpoint != to {
				s.Endpoint = "" // not the answer of the endpoint for submissions
			}
			old, ok := best[s.ID]
			if more := strength(s.Reported) - strength(old.Reported); !ok || more > 0 || (more == 0 && s.Endpoint != "") {
				best[s.ID] = s
			}
		}
		switch {
		case r.err == nil:
			continue
		case dlt.Kind(r.err) == batch.KindUnavailable:
			down++
		default:
			open = true
		}
		errs = append(errs, r.err)
	}
	for _, id := range ids {
		s, ok := best[id]
		if ok && !(open && s.Reported == batch.ReportedUnknown) {
			out = append(out, s)
		}
	}
	if len(out) == len(ids) {
		return out, false, nil
	}
	return out, down == bits.OnesCount64(mask), errors.Join(errs...)
}

// strength ranks the answers of nodes. Each node has its own memory, and the node that knows more
// is right. Only commits are in the shared chain.
func strength(r batch.Reported) int {
	return slices.Index([]batch.Reported{
		batch.ReportedUnknown, batch.ReportedPending, batch.ReportedInvalid, batch.ReportedCommitted,
	}, r)
}

// ask asks one endpoint about the ids, in chunks. It stops at the first error.
func (c *Client) ask(ctx context.Context, endpoint int, ids []batch.ID) ([]batch.Status, error) {
	var out []batch.Status
	for chunk := range slices.Chunk(ids, maxIDs) {
		statuses, err := c.askChunk(ctx, c.endpoints[endpoint].statuses, chunk)
		for i := range statuses {
			if r := statuses[i].Reported; r == batch.ReportedPending || r == batch.ReportedUnknown {
				statuses[i].Endpoint = c.endpoints[endpoint].name
			}
		}
		out = append(out, statuses...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// askChunk asks one endpoint about the ids of a chunk. It does not ask the node to wait, since a
// wait occupies one of the five threads that serve all clients of the validator
// (docs/ledgers/sawtooth.md#asking-for-statuses).
func (c *Client) askChunk(ctx context.Context, target string, ids []batch.ID) ([]batch.Status, error) {
	body, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("sawtooth: encode ids: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newPost(ctx, target, "application/json")
	if err != nil {
		return nil, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = open()
	req.GetBody = open // a query may be sent again, when its connection was being closed
	req.ContentLength = int64(len(body))
	resp, err := c.exchange(req, opStatuses) //nolint:bodyclose // drain closes it
	if err != nil {
		return nil, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		e := readEnvelope(resp.Header, resp.Body, cancel)
		return nil, c.refusalError(opStatuses, resp, e, classifyStatuses(resp.StatusCode, e.code, resp.Header, time.Now()))
	}
	statuses, err := decodeStatuses(resp.Body, c.maxResponse, ids)
	if err != nil {
		err = &dlt.Error{Op: opStatuses, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.redactError(err)}
	}
	return statuses, err
}
