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
	m := e.meaningOf(status)
	if e.isParticipants && status >= 200 && status <= 299 {
		m = meansUnclear // an error in an answer that says success
	}
	switch m {
	case meansDuplicate:
		return nil // the command has taken effect, as its completion shows
	case meansTransient:
		return dlt.ErrBusy
	case meansWaits:
		return dlt.ErrNotYet
	case meansRefused:
		return dlt.ErrRejected
	case meansSetup:
		return dlt.ErrMisconfigured
	}
	// meansInFlight is doubt, too: the command's outcome depends on the attempt in flight.
	return dlt.ErrDoubt
}

// readKind returns the meaning of an answer that is not the expected one to a query.
func readKind(status int, e envelope) error {
	switch e.meaningOf(status) {
	case meansTransient:
		return dlt.ErrBusy
	case meansRefused, meansWaits, meansSetup:
		return dlt.ErrMisconfigured // repeating it changes nothing
	}
	return dlt.ErrDoubt
}

// meaningOf returns the meaning of an answer that is not the expected one.
func (e envelope) meaningOf(status int) meaning {
	if e.isParticipants {
		return e.meaning()
	}
	if e.isPlainText && (status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest && e.saysUndecodable) {
		return meansRefused // the participant's own server, about these bytes; only the payload varies in them
	}
	if m, ok := statusMeanings[status]; ok {
		return m
	}
	if wire.Refuses(status) {
		return meansSetup
	}
	return meansUnclear
}

// reportedState returns the meaning of a completion's failure for its attempt; 0 if only an
// operator can find out. A failure that is not definite ends nothing.
func (f failure) reportedState() batch.Reported {
	switch m := f.meaning(); m {
	case meansDuplicate:
		return batch.ReportedCommitted
	case meansTransient:
		return batch.ReportedFailed
	case meansRefused:
		if !f.isIndefinite() {
			return batch.ReportedInvalid
		}
	case meansInternal:
		return 0
	}
	// No trace of any meaning: the same command again, which costs nothing, will show.
	return batch.ReportedUnknown
}
