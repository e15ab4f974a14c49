package splinter

import (
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// verdict is the meaning of a response for the attempt.
type verdict struct {
	kind       error // nil: accepted
	retryAfter time.Duration
}

// classify returns the meaning of a response to POST batches, for a list of one batch
// (docs/ledgers/splinter.md#submitting). An unknown response is doubt. absent is the meaning
// of a 404.
func classify(status int, e envelope, h http.Header, absent error, now time.Time) verdict {
	switch {
	case status == http.StatusAccepted:
		return verdict{} // for any body: the node has the batch
	case status == http.StatusTooManyRequests:
		// The coordinator's queue is full; the node tests this before it queues anything.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusNotFound:
		return verdict{kind: absent}
	case status == http.StatusRequestEntityTooLarge: // a proxy's
		return verdict{kind: dlt.ErrRejected}
	case status == http.StatusBadRequest && e.isJSON && e.code == http.StatusBadRequest:
		return verdict{kind: dlt.ErrRejected} // body or verification, all or nothing
	case status == http.StatusBadRequest:
		return verdict{kind: dlt.ErrMisconfigured} // version guard, or a proxy
	case wire.Refuses(status):
		return verdict{kind: dlt.ErrMisconfigured}
	default:
		// A 500 covers both a bad batch and a batch that may be queued already; a
		// 408, 502 or 504 says that somebody waited long enough.
		return verdict{kind: dlt.ErrDoubt}
	}
}

// classifyStatuses returns the meaning of a response to GET batch_statuses other than 200.
func classifyStatuses(status int, h http.Header, absent error, now time.Time) verdict {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		// Before 0.6.13 a 408 is the end of a wait, which this client never asks for.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusNotFound:
		return verdict{kind: absent}
	case status == http.StatusBadRequest, wire.Refuses(status):
		return verdict{kind: dlt.ErrMisconfigured} // repeating it changes nothing
	default:
		return verdict{kind: dlt.ErrDoubt}
	}
}
