package sawtooth

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

// classify returns the meaning of a response to POST /batches, for a list of one batch
// (docs/ledgers/sawtooth.md#submitting). An unknown response is doubt.
func classify(status, code int, h http.Header, isJSON bool, now time.Time) verdict {
	switch {
	case status == http.StatusAccepted:
		return verdict{} // for any body: the node has the batch
	case status == http.StatusTooManyRequests:
		// The pool is full (31), or a proxy limits the rate; neither accepted anything.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusRequestTimeout && code == 19:
		// The REST process could not pass it to the validator. Any other 408 only means that a
		// proxy waited long enough.
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case status == http.StatusRequestEntityTooLarge:
		return verdict{kind: dlt.ErrRejected} // a single batch cannot be split
	case status == http.StatusBadRequest:
		return verdict{kind: badRequest(code, isJSON)}
	case wire.Refuses(status):
		return verdict{kind: dlt.ErrMisconfigured}
	default:
		// 5xx, above all with 17, may still execute; 303 means "done, look there"; another 2xx
		// or 4xx is not the node's.
		return verdict{kind: dlt.ErrDoubt}
	}
}

func badRequest(code int, isJSON bool) error {
	switch code {
	case 30: // signature, structure or permission
		return dlt.ErrRejected
	case 34, 35:
		// Empty, or no BatchList. That would be a bug of this client, which frames all batches
		// alike. But it is about these bytes, and the node may well accept another batch, so
		// it must not stop the others.
		return dlt.ErrRejected
	case 42: // content type: a proxy has changed it
		return dlt.ErrMisconfigured
	case 0:
		if !isJSON { // request line or headers too long, or a proxy's refusal
			return dlt.ErrMisconfigured
		}
	}
	return dlt.ErrDoubt
}

// classifyStatuses returns the meaning of a response to POST /batch_statuses other than 200.
func classifyStatuses(status, code int, h http.Header, now time.Time) verdict {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return verdict{kind: dlt.ErrBusy, retryAfter: wire.RetryAfter(h, now)}
	case wire.Refuses(status):
		return verdict{kind: dlt.ErrMisconfigured}
	case status == http.StatusBadRequest && (code == 43 || code == 46 || code == 60 || code == 66):
		return verdict{kind: dlt.ErrMisconfigured} // our request is wrong: repeating it changes nothing
	default:
		return verdict{kind: dlt.ErrDoubt}
	}
}
