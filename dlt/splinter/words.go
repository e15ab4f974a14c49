package splinter

import (
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// submitKinds is the table of answers to POST batches, in addition to [wire.Refuses] and to the
// statuses that classify distinguishes by their bodies. Any other status is doubt: a 500 may mean
// a bad batch or a batch that is queued already, and a 408, 502 or 504 means that a proxy has
// waited long enough. The sources are the table in docs/ledgers/splinter.md#submitting, and RFCs
// for proxies' answers.
var submitKinds = map[int]error{
	http.StatusAccepted: nil, // seen; whatever the body is, the node has the batch
	// Seen: the coordinator's queue is full; the node tests this before it queues a batch.
	http.StatusTooManyRequests: dlt.ErrBusy,
	// A proxy's answer, because nodes have no limit: the proxy accepts less than others (RFC 9110,
	// section 15.5.14).
	http.StatusRequestEntityTooLarge: dlt.ErrNotYet,
}

// queryKinds is the table of answers to GET batch_statuses other than 200, in addition to
// [wire.Refuses] and 404.
var queryKinds = map[int]error{
	http.StatusTooManyRequests: dlt.ErrBusy,
	http.StatusRequestTimeout:  dlt.ErrBusy,          // before 0.6.13 the end of a wait, which this client does not ask for
	http.StatusBadRequest:      dlt.ErrMisconfigured, // seen: repeating the request would not help
}

// classify returns the meaning of a response to POST batches, for a list of one batch. absent is
// the meaning of a 404.
func classify(status int, e envelope, h http.Header, absent error, now time.Time) wire.Verdict {
	kind, known := submitKinds[status]
	switch {
	case known:
	case status == http.StatusNotFound:
		kind = absent
	case status == http.StatusBadRequest && e.isNodeForm && e.code == http.StatusBadRequest:
		kind = dlt.ErrRejected // seen: the body cannot be decoded or the batch fails verification; no batch is accepted
	case status == http.StatusBadRequest, wire.Refuses(status):
		kind = dlt.ErrMisconfigured // a 400 of the version guard, or of a proxy
	default:
		kind = dlt.ErrDoubt
	}
	return wire.VerdictOf(kind, h, now)
}

// classifyStatuses returns the meaning of a response to GET batch_statuses other than 200.
func classifyStatuses(status int, h http.Header, absent error, now time.Time) wire.Verdict {
	kind, known := queryKinds[status]
	switch {
	case known:
	case status == http.StatusNotFound:
		kind = absent
	case wire.Refuses(status):
		kind = dlt.ErrMisconfigured
	default:
		kind = dlt.ErrDoubt
	}
	return wire.VerdictOf(kind, h, now)
}
