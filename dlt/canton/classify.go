package canton

import (
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// meaning is what a failure says of a command, whether it comes with the answer to
// a POST or with a completion.
type meaning uint8

const (
	// unclear: it may have happened.
	unclear meaning = iota
	// duplicate: an earlier attempt was accepted; the command has taken effect.
	duplicate
	// inFlight: this attempt was not taken, because an earlier one is under way.
	inFlight
	// transient: this attempt had no effect, and the same command may succeed later.
	transient
	// refused: this attempt had no effect, and none of the same command will.
	refused
	// setup: this attempt had no effect, for a reason that is not the command's.
	setup
	// internal: nobody but an operator of the participant can say.
	internal
)

// String returns the name in words.
func (m meaning) String() string {
	return [...]string{"unclear", "duplicate", "in flight", "transient", "refused", "set-up", "internal"}[m]
}

// The error categories (docs/ledgers/canton.md#errors).
const (
	catTransientServerFailure = 1
	catContention             = 2
	catDeadlineUnknown        = 3
	catInternal               = 4
	catSecurityAlert          = 5
	catCredentials            = 6
	catPermission             = 7
	catInvalidIndependent     = 8
	catInvalidState           = 9
	catResourceExists         = 10
	catResourceMissing        = 11
	catSeekAfterEnd           = 12
	catUnsupported            = 14
)

// meaning looks at the id first, since a category is often too wide, then at the
// category, and at the gRPC code where a redacted or old error has neither.
func (f failure) meaning() meaning {
	switch f.id {
	case "DUPLICATE_COMMAND":
		return duplicate
	case "SUBMISSION_ALREADY_IN_FLIGHT":
		return inFlight
	case "UNKNOWN_CONTRACT_SYNCHRONIZER": // the documentation says: submit again
		return transient
	case "NOT_CONNECTED_TO_ANY_SYNCHRONIZER", // an operator has to connect it
		"INVALID_DEDUPLICATION_PERIOD", "PARTICIPANT_PRUNED_DATA_ACCESSED": // of Options, which go with every command
		return setup
	case "JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED": // says nothing of a command
		return internal
	}
	category := f.category
	if category <= 0 {
		if f.grpc == grpcResourceExhausted {
			return transient
		}
		category = categoryOf[f.grpc]
	}
	switch category {
	case catTransientServerFailure, catDeadlineUnknown:
		return unclear
	case catContention:
		return transient
	case catSecurityAlert, catInvalidIndependent, catInvalidState, catResourceMissing:
		return refused
	case catResourceExists:
		if f.id == "" || f.id == "NA" {
			return internal // it might have been a duplicate
		}
		return refused
	case catCredentials, catPermission, catUnsupported:
		return setup
	}
	return internal
}

const grpcResourceExhausted = 8

// categoryOf is by gRPC code. INVALID_ARGUMENT (3) is of two categories that mean
// the same to us; CANCELLED, UNKNOWN and DATA_LOSS are of none.
var categoryOf = map[int]int{
	14: catTransientServerFailure, 10: catContention, 4: catDeadlineUnknown, 13: catInternal,
	3: catInvalidIndependent, 16: catCredentials, 7: catPermission, 9: catInvalidState,
	6: catResourceExists, 5: catResourceMissing, 11: catSeekAfterEnd, 12: catUnsupported,
}

// submitKind says what the answer to a submission means, nil for accepted. HTTP 400
// and 409 are ambiguous: where there is an error object, that decides alone.
func submitKind(status int, e envelope) error {
	if status == http.StatusOK {
		return nil // whatever the body is
	}
	if e.known && (status < 200 || status > 299) {
		switch e.meaning() {
		case duplicate:
			return nil // the command has taken effect: its completion says so
		case transient:
			return dlt.ErrBusy
		case refused:
			return dlt.ErrRejected
		case setup:
			return dlt.ErrMisconfigured
		}
		// In flight, too: what becomes of the command hangs on the attempt that is.
		return dlt.ErrDoubt
	}
	switch {
	case status == http.StatusTooManyRequests:
		return dlt.ErrBusy
	case status == http.StatusRequestEntityTooLarge:
		return dlt.ErrRejected // a single command cannot be split
	case status == http.StatusBadRequest && e.plain:
		return dlt.ErrRejected // the body could not be decoded, and what varies in it is the payload
	case status == http.StatusBadRequest, isRefusal(status), wire.IsRedirect(status):
		return dlt.ErrMisconfigured // a proxy's
	}
	// A plain 503 is a request timeout, after which the command goes on all the same.
	return dlt.ErrDoubt
}

// readKind says what an answer means that is not the one to a question.
func readKind(status int, e envelope) error {
	if e.known {
		switch e.meaning() {
		case transient:
			return dlt.ErrBusy
		case refused, setup:
			return dlt.ErrMisconfigured // asking again changes nothing
		}
		return dlt.ErrDoubt
	}
	switch {
	case status == http.StatusTooManyRequests:
		return dlt.ErrBusy
	case status == http.StatusBadRequest, isRefusal(status), wire.IsRedirect(status):
		return dlt.ErrMisconfigured
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

// reported says what a completion's failure means for its attempt; 0 for what only
// an operator knows.
func (m meaning) reported() batch.Reported {
	switch m {
	case duplicate:
		return batch.ReportedCommitted
	case transient, setup: // a set-up that is wrong must not burn the batch
		return batch.ReportedFailed
	case refused:
		return batch.ReportedInvalid
	case unclear, inFlight: // no trace that says anything; the same command again tells
		return batch.ReportedUnknown
	}
	return 0
}
