package sawtooth

import (
	"net/http"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// answerMeaning is an answer of a node, or of a proxy in front of it, and its meaning. Only an
// answer that is in a table is certain; any other answer is doubt.
type answerMeaning struct {
	status, code int
	kind         error // nil means accepted
}

// bodyForm is the form of an answer's body. It decides where the status and the code do not.
type bodyForm uint8

const (
	otherForm bodyForm = iota // a proxy's form, or no body
	textForm                  // text/plain, as the node's own server answers
	jsonForm                  // the node's form, even if the body was cut off
)

// submitMeanings is the table of answers to POST /batches, in addition to [wire.Refuses]. A row
// has the node's code if the status alone means nothing: any other code with that status is then
// doubt. The sources are the tables in docs/ledgers/sawtooth.md#submitting, and RFCs for proxies'
// answers.
var submitMeanings = []answerMeaning{
	{http.StatusAccepted, anyCode, nil}, // seen; whatever the body is, the node has the batch
	// Seen: a bad signature or structure, or a signer that the ledger's policy does not permit.
	// Check has accepted signatures and structure, and permissions are the ledger's own rule about
	// this batch: the refusal is about these bytes. A person may requeue the batch when the policy
	// has changed.
	{http.StatusBadRequest, 30, dlt.ErrRejected},
	// Seen: an empty body, or no BatchList. The client sends neither, so a proxy has changed the
	// bytes, perhaps of this batch only.
	{http.StatusBadRequest, 34, dlt.ErrNotYet},
	{http.StatusBadRequest, 35, dlt.ErrNotYet},
	{http.StatusBadRequest, 42, dlt.ErrMisconfigured}, // seen: a proxy has changed the content type
	// Read in messaging.py: the REST process could not pass the batch to the validator. Any other
	// 408 only means that a proxy has waited long enough.
	{http.StatusRequestTimeout, 19, dlt.ErrBusy},
	// Seen with code 31: the pool is full. A proxy that limits the rate has not accepted the batch
	// either.
	{http.StatusTooManyRequests, anyCode, dlt.ErrBusy},
}

// queryMeanings is the table of answers to POST /batch_statuses other than 200, in addition to
// [wire.Refuses] (docs/ledgers/sawtooth.md#asking-for-statuses).
var queryMeanings = []answerMeaning{
	{http.StatusTooManyRequests, anyCode, dlt.ErrBusy},
	{http.StatusRequestTimeout, anyCode, dlt.ErrBusy},
	// Seen: the client's request is wrong, and repeating it would not help.
	{http.StatusBadRequest, 43, dlt.ErrMisconfigured},
	{http.StatusBadRequest, 46, dlt.ErrMisconfigured},
	{http.StatusBadRequest, 60, dlt.ErrMisconfigured},
	{http.StatusBadRequest, 66, dlt.ErrMisconfigured},
}

// anyCode in a row means any code, or none.
const anyCode = -1

// findMeaning returns the meaning of an answer in a table, and whether the table has the answer.
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

// classify returns the meaning of a response to POST /batches. An unknown response is doubt: after
// a 5xx, especially with code 17, the batch may still be executed; 303 means "done, look there";
// any other 2xx or 4xx is not the node's.
func classify(status, code int, h http.Header, f bodyForm, now time.Time) wire.Verdict {
	kind, known := findMeaning(submitMeanings, status, code)
	switch {
	case known:
	case status == http.StatusRequestEntityTooLarge && f == textForm:
		kind = dlt.ErrRejected // seen: the node's own refusal of these bytes
	case status == http.StatusRequestEntityTooLarge:
		kind = dlt.ErrNotYet // a proxy accepts less than Options.MaxBody (RFC 9110, section 15.5.14)
	case status == http.StatusBadRequest && code == 0 && f != jsonForm:
		kind = dlt.ErrMisconfigured // seen for a request line or headers that are too long; or a proxy's refusal
	}
	return wire.VerdictOf(kind, h, now)
}

// classifyStatuses returns the meaning of a response to POST /batch_statuses other than 200.
func classifyStatuses(status, code int, h http.Header, now time.Time) wire.Verdict {
	kind, _ := findMeaning(queryMeanings, status, code)
	return wire.VerdictOf(kind, h, now)
}
