package sawtooth

import (
	"net/http"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// answerMeaning is an answer of a node, or of a proxy before it, and its meaning. Only words that
// stand in a table are certain; all others are doubt.
type answerMeaning struct {
	status, code int
	kind         error // nil: accepted
}

// bodyForm is the form of an answer's body, where the status and the code do not decide.
type bodyForm uint8

const (
	otherForm bodyForm = iota // of a proxy, or nothing
	textForm                  // text/plain, as the node's own server answers
	jsonForm                  // the node's, even if it was cut off
)

// submitMeanings is the table of answers to POST /batches, in addition to [wire.Refuses]. It names
// the code of the node where the status alone says nothing: any other code of that status is
// doubt. The sources are the tables in docs/ledgers/sawtooth.md#submitting, and RFCs for what
// proxies say.
var submitMeanings = []answerMeaning{
	{http.StatusAccepted, anyCode, nil}, // seen; for any body: the node has the batch
	// Seen: a signature, the structure, or a signer that the ledger's policy does not permit.
	// Check has found the first two in order, and the ledger's permissions are its own rule about
	// this batch: a refusal is its word about these bytes. A person may requeue the batch when the
	// policy is changed.
	{http.StatusBadRequest, 30, dlt.ErrRejected},
	// Seen: an empty body, or no BatchList. The client sends neither: somebody on the way has
	// changed the bytes, of this batch perhaps and not of others.
	{http.StatusBadRequest, 34, dlt.ErrNotYet},
	{http.StatusBadRequest, 35, dlt.ErrNotYet},
	{http.StatusBadRequest, 42, dlt.ErrMisconfigured}, // seen: a proxy has changed the content type
	// Read (messaging.py): the REST process could not pass it to the validator. Any other 408 only
	// means that a proxy waited long enough.
	{http.StatusRequestTimeout, 19, dlt.ErrBusy},
	// Seen with 31: the pool is full. A proxy that limits the rate has not accepted anything,
	// either.
	{http.StatusTooManyRequests, anyCode, dlt.ErrBusy},
}

// queryMeanings is the table of answers to POST /batch_statuses other than 200, in addition to
// [wire.Refuses] (docs/ledgers/sawtooth.md#asking-for-statuses).
var queryMeanings = []answerMeaning{
	{http.StatusTooManyRequests, anyCode, dlt.ErrBusy},
	{http.StatusRequestTimeout, anyCode, dlt.ErrBusy},
	// Seen: our request is wrong, and repeating it changes nothing.
	{http.StatusBadRequest, 43, dlt.ErrMisconfigured},
	{http.StatusBadRequest, 46, dlt.ErrMisconfigured},
	{http.StatusBadRequest, 60, dlt.ErrMisconfigured},
	{http.StatusBadRequest, 66, dlt.ErrMisconfigured},
}

// anyCode stands for each code of a status, and for none.
const anyCode = -1

// findMeaning returns the meaning that a table gives an answer.
func findMeaning(table []answerMeaning, status, code int) (error, bool) { //nolint:revive // the error is what is looked up
	i := slices.IndexFunc(table, func(w answerMeaning) bool { return w.status == status && (w.code == anyCode || w.code == code) })
	switch {
	case i >= 0:
		return table[i].kind, true
	case wire.Refuses(status):
		return dlt.ErrMisconfigured, true
	}
	return dlt.ErrDoubt, false
}

// classify returns the meaning of a response to POST /batches. An unknown response is doubt: a
// 5xx, above all with 17, may still execute; 303 means "done, look there"; another 2xx or 4xx is
// not the node's.
func classify(status, code int, h http.Header, f bodyForm, now time.Time) wire.Verdict {
	kind, known := findMeaning(submitMeanings, status, code)
	switch {
	case known:
	case status == http.StatusRequestEntityTooLarge && f == textForm:
		kind = dlt.ErrRejected // seen: the node's own word about these bytes
	case status == http.StatusRequestEntityTooLarge:
		kind = dlt.ErrNotYet // somebody on the way takes less than Options.MaxBody (RFC 9110, section 15.5.14)
	case status == http.StatusBadRequest && code == 0 && f != jsonForm:
		kind = dlt.ErrMisconfigured // seen: request line or headers too long; or a proxy's refusal
	}
	return wire.VerdictOf(kind, h, now)
}

// classifyStatuses returns the meaning of a response to POST /batch_statuses other than 200.
func classifyStatuses(status, code int, h http.Header, now time.Time) wire.Verdict {
	kind, _ := findMeaning(queryMeanings, status, code)
	return wire.VerdictOf(kind, h, now)
}
