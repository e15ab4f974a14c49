package canton

import (
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// submitKind returns the kind of an answer to a submission; nil if it is accepted. HTTP 400 and
// 409 are ambiguous: if there is an error object, it alone decides. For a POST it does not matter
// whether the error is definite: the errors that are refusals here are about the command, and an
// earlier attempt in doubt stays in doubt.
func submitKind(status int, e envelope) error {
	if status == http.StatusOK {
		return nil // whatever the body is
	}
	m := e.meaningOf(status)
	if e.isParticipants && status >= 200 && status <= 299 {
		m = meansUnclear // an error object in an answer with a status of success
	}
	switch m {
	case meansDuplicate:
		return nil // the command has taken effect, as its completion shows
	case meansTransient:
		return dlt.ErrBusy
	case meansNotYet:
		return dlt.ErrNotYet
	case meansRefused:
		return dlt.ErrRejected
	case meansMisconfigured:
		return dlt.ErrMisconfigured
	}
	// meansInFlight is doubt, too: the command's outcome depends on the attempt in flight.
	return dlt.ErrDoubt
}

// readKind returns the kind of error for an unexpected answer to a query.
func readKind(status int, e envelope) error {
	switch e.meaningOf(status) {
	case meansTransient:
		return dlt.ErrBusy
	case meansRefused, meansNotYet, meansMisconfigured:
		return dlt.ErrMisconfigured // repeating the query would not help
	}
	return dlt.ErrDoubt
}

// meaningOf returns the meaning of an unexpected answer.
func (e envelope) meaningOf(status int) meaning {
	if e.isParticipants {
		return e.meaning()
	}
	if e.isPlainText && (status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest && e.saysUndecodable) {
		return meansRefused // an answer of the participant's own server, about these bytes: only the payload differs between requests
	}
	if m, ok := statusMeanings[status]; ok {
		return m
	}
	if wire.Refuses(status) {
		return meansMisconfigured
	}
	return meansUnclear
}

// reportedState returns the reported status for the failure of a completion; 0 if only an operator
// can find the outcome. A failure that is not definite makes no batch final.
func (f participantError) reportedState() batch.Reported {
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
	// Any other meaning counts as no trace: sending the command again, which does no harm, will
	// show.
	return batch.ReportedUnknown
}
