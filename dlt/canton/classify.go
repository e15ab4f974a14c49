package canton

import (
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// submitKind returns the meaning of an answer to a submission, nil for accepted. HTTP 400 and
// 409 are ambiguous: if there is an error object, it alone decides. Of a POST it does not matter
// whether the answer is definite: the words that are refusals here are about the command, and an
// earlier attempt in doubt stays in doubt.
func submitKind(status int, e envelope) error {
	if status == http.StatusOK {
		return nil // for any body
	}
	m := e.word(status)
	if e.known && status >= 200 && status <= 299 {
		m = unclear // an error in an answer that says success
	}
	switch m {
	case duplicate:
		return nil // the command has taken effect, as its completion shows
	case transient:
		return dlt.ErrBusy
	case waits:
		return dlt.ErrNotYet
	case refused:
		return dlt.ErrRejected
	case setup:
		return dlt.ErrMisconfigured
	}
	// inFlight, too: the command's outcome depends on the attempt in flight.
	return dlt.ErrDoubt
}

// readKind returns the meaning of an answer that is not the expected one to a query.
func readKind(status int, e envelope) error {
	switch e.word(status) {
	case transient:
		return dlt.ErrBusy
	case refused, waits, setup:
		return dlt.ErrMisconfigured // repeating it changes nothing
	}
	return dlt.ErrDoubt
}

// word returns the meaning of an answer that is not the expected one.
func (e envelope) word(status int) meaning {
	if e.known {
		return e.meaning()
	}
	if e.plain && (status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest && e.undecodable) {
		return refused // the participant's own server, about these bytes; only the payload varies in them
	}
	if m, ok := plainWords[status]; ok {
		return m
	}
	if wire.Refuses(status) {
		return setup
	}
	return unclear
}

// reported returns the meaning of a completion's failure for its attempt; 0 if only an
// operator can find out. A failure that is not definite ends nothing.
func (f failure) reported() batch.Reported {
	switch m := f.meaning(); m {
	case duplicate:
		return batch.ReportedCommitted
	case transient:
		return batch.ReportedFailed
	case refused:
		if !f.indefinite() {
			return batch.ReportedInvalid
		}
	case internal:
		return 0
	}
	// No trace of any meaning: the same command again, which costs nothing, will show.
	return batch.ReportedUnknown
}
