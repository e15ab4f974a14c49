package evm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// endpoint is one node, or a proxy in front of several.
type endpoint struct {
	index        uint32
	url          string
	shownAddress string // the URL's scheme and host
	arrayLimit   arrayLengthLimit
	identity     identity
	nextNonces   nextNonces
	doubts       wire.DoubtCounter
	// recentBlocks are the blocks of this endpoint only: they prove nothing about another
	// endpoint.
	recentBlocks recentBlocks
	// asideUntil is the time until which other endpoints are preferred, in nanoseconds of Unix
	// time.
	asideUntil atomic.Int64
}

// How long an endpoint stays aside after a failure, while others are not aside.
const (
	asideAfterBusy    = time.Second // or its Retry-After, if that is longer
	asideAfterSilence = 10 * time.Second
	asideAfterRefusal = time.Minute
)

// endpointsInTurn returns the endpoints in the order in which they are asked. The endpoint for
// submissions is the first.
func (c *Client) endpointsInTurn() []*endpoint {
	first := c.preferred.Load()
	out := make([]*endpoint, 0, len(c.endpoints))
	return append(append(out, c.endpoints[first:]...), c.endpoints[:first]...)
}

// errAskAnother is the cause of an error to which another node may give a better answer.
var errAskAnother = errors.New("another node may say otherwise")

// behindError returns the error for a node that is behind others, or whose answers do not fit
// together.
func (c *Client) behindError(op, format string, args ...any) error {
	return &dlt.Error{Op: op, Kind: dlt.ErrNotYet, Message: c.shownText(fmt.Sprintf(format, args...)), Err: errAskAnother}
}

// onPreferred asks the endpoint for submissions about a batch, and names the endpoint in the
// error. If the error is the endpoint's fault, or the endpoint has left the batch in doubt again
// and again, another endpoint is for submissions from then on. RetryAfter is then the time until
// that endpoint may be asked.
func (c *Client) onPreferred(ctx context.Context, key batch.Key, ask func(e *endpoint) error) error {
	e, late := c.endpoints[c.preferred.Load()], ctx.Err() != nil
	err := dlt.At(e.shownAddress, ask(e))
	again := e.doubts.Add(key, err)
	if late || len(c.endpoints) == 1 || !again && !isEndpointsFault(ctx, err) {
		return err
	}
	c.putAside(e, err)
	if typed, ok := errors.AsType[*dlt.Error](err); ok && dlt.Kind(err) == batch.KindBusy {
		typed.RetryAfter = max(0, time.Until(time.Unix(0, c.endpoints[c.preferred.Load()].asideUntil.Load())))
	}
	return err
}

// putAside puts an endpoint aside. If it was the endpoint for submissions, the next endpoint that
// is not aside takes its place. If all are aside, it is the one that is aside for the shortest
// time.
func (c *Client) putAside(e *endpoint, err error) {
	now := time.Now()
	e.asideUntil.Store(now.Add(asideDuration(err)).UnixNano())
	best := e
	for i := range c.endpoints {
		other := c.endpoints[(int(e.index)+1+i)%len(c.endpoints)]
		if until := other.asideUntil.Load(); until <= now.UnixNano() {
			best = other
			break
		} else if until < best.asideUntil.Load() {
			best = other
		}
	}
	c.preferred.CompareAndSwap(e.index, best.index)
}

func asideDuration(err error) time.Duration {
	switch dlt.Kind(err) {
	case batch.KindBusy:
		e, _ := errors.AsType[*dlt.Error](err)
		return max(asideAfterBusy, e.RetryAfter)
	case batch.KindMisconfigured:
		return asideAfterRefusal
	}
	return asideAfterSilence
}

// isEndpointsFault reports whether an error is the endpoint's fault, so that another endpoint may
// do better: the endpoint was not reached, is busy or refuses this client, its proxy fails, or no
// answer came within the time limit. An error of the node about a transaction is not the
// endpoint's fault, and a cancelled call says nothing about the endpoint.
func isEndpointsFault(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	if errors.Is(err, errAskAnother) {
		return true
	}
	switch dlt.Kind(err) {
	case batch.KindUnavailable, batch.KindBusy, batch.KindMisconfigured:
		return true
	case batch.KindDoubt:
		e, ok := errors.AsType[*dlt.Error](err)
		switch {
		case ctx.Err() != nil, !ok:
			return true
		case e.StatusCode == 0: // no HTTP answer, or an error of the node
			return e.Code == 0 && e.Err != nil
		}
		return e.StatusCode >= http.StatusInternalServerError
	}
	return false
}
