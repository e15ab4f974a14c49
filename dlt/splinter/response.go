package splinter

import (
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// verdict is what a response means for the attempt.
type verdict struct {
	kind       error // nil: accepted
	retryAfter time.Duration
}

// classify says what the response to POST batches means, for a list of one batch
// (docs/ledgers/splinter.md#submitting). What it does not know is doubt. absent
// is what a 404 means.
func classify(status int, e envelope, h http.Header, absent error, now time.Time) verdict {
	switch {
	case status == http.StatusAccepted:
		return verdict{} // whatever the body is: the node has the batch
	case status == http.StatusTooManyRequests:
		// The coordinator's queue is full; tested before anything is queued.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusNotFound:
		return verdict{kind: absent}
	case status == http.StatusRequestEntityTooLarge: // a proxy's
		return verdict{kind: dlt.ErrRejected}
	case status == http.StatusBadRequest && e.isJSON && e.code == http.StatusBadRequest:
		return verdict{kind: dlt.ErrRejected} // body or verification, all or nothing
	case status == http.StatusBadRequest:
		return verdict{kind: dlt.ErrMisconfigured} // version guard, or somebody in between
	case isRefusal(status), wire.IsRedirect(status):
		return verdict{kind: dlt.ErrMisconfigured}
	default:
		// A 500 mixes what is wrong with the batch with what may be queued already; a
		// 408, 502 or 504 says that somebody waited long enough.
		return verdict{kind: dlt.ErrDoubt}
	}
}

// isRefusal reports the statuses that say, before any work is done, that this
// client may not, or that this is not the place.
func isRefusal(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}

// classifyStatuses says what a response to GET batch_statuses means that is not 200.
func classifyStatuses(status int, h http.Header, absent error, now time.Time) verdict {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		// Before 0.6.13 a 408 is the end of a wait, which this client never asks for.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusNotFound:
		return verdict{kind: absent}
	case status == http.StatusBadRequest, isRefusal(status), wire.IsRedirect(status):
		return verdict{kind: dlt.ErrMisconfigured} // asking again changes nothing
	default:
		return verdict{kind: dlt.ErrDoubt}
	}
}
