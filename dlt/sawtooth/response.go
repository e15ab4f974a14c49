package sawtooth

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

// classify says what the response to POST /batches means, for a list of one batch
// (docs/ledgers/sawtooth.md#submitting). What it does not know is doubt.
func classify(status, code int, h http.Header, isJSON bool, now time.Time) verdict {
	switch {
	case status == http.StatusAccepted:
		return verdict{} // whatever the body is: the node has the batch
	case status == http.StatusTooManyRequests:
		// The pool is full (31), or a proxy limits the rate; neither took anything.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusRequestTimeout && code == 19:
		// The REST process could not hand it to the validator. A 408 of anybody else
		// only says that somebody waited long enough.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusRequestEntityTooLarge:
		return verdict{kind: dlt.ErrRejected} // a single batch cannot be split
	case status == http.StatusBadRequest:
		return verdict{kind: badRequest(code, isJSON)}
	case isRefusal(status), wire.IsRedirect(status):
		return verdict{kind: dlt.ErrMisconfigured}
	default:
		// 5xx, with 17 above all, may still execute; 303 says "done, look there";
		// another 2xx or 4xx is not the node's.
		return verdict{kind: dlt.ErrDoubt}
	}
}

func badRequest(code int, isJSON bool) error {
	switch code {
	case 30: // signature, structure or permission
		return dlt.ErrRejected
	case 34, 35:
		// Empty, or no BatchList. That would be a bug of this client, which frames
		// them all alike; but it is about these bytes, and another batch may well be
		// taken, so that it must not stop the others.
		return dlt.ErrRejected
	case 42: // content type: a proxy changes it
		return dlt.ErrMisconfigured
	case 0:
		if !isJSON { // request line or headers too long, or a proxy's refusal
			return dlt.ErrMisconfigured
		}
	}
	return dlt.ErrDoubt
}

// isRefusal reports the statuses that say, before any work is done, that this
// client may not, or that this is not the place.
func isRefusal(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}

// classifyStatuses says what a response to POST /batch_statuses means that is not 200.
func classifyStatuses(status, code int, h http.Header, now time.Time) verdict {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case isRefusal(status), wire.IsRedirect(status):
		return verdict{kind: dlt.ErrMisconfigured}
	case status == http.StatusBadRequest && (code == 43 || code == 46 || code == 60 || code == 66):
		return verdict{kind: dlt.ErrMisconfigured} // our request is wrong: asking again changes nothing
	default:
		return verdict{kind: dlt.ErrDoubt}
	}
}
