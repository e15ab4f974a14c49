package canton

import (
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// meaning is the meaning of a failure for a command, both in the answer to a POST and in a
// completion.
type meaning uint8

const (
	// unclear: it may have taken effect.
	unclear meaning = iota
	// duplicate: an earlier attempt was accepted; the command has taken effect.
	duplicate
	// inFlight: this attempt was not accepted, because an earlier one is in flight.
	inFlight
	// transient: this attempt had no effect, and the same command may succeed later.
	transient
	// refused: this attempt had no effect, and no other of the same command will.
	refused
	// setup: this attempt had no effect, for a reason outside the command.
	setup
	// internal: only an operator of the participant can find out.
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

// meaning looks at the id first, since a category is often too wide, then at the category, and
// at the gRPC code if a redacted or old error has neither.
func (f failure) meaning() meaning {
	switch f.id {
	case "DUPLICATE_COMMAND":
		return duplicate
	case "SUBMISSION_ALREADY_IN_FLIGHT":
		return inFlight
	case "UNKNOWN_CONTRACT_SYNCHRONIZER": // the documentation says: submit again
		return transient
	case "NOT_CONNECTED_TO_ANY_SYNCHRONIZER", // an operator has to connect it
		"INVALID_DEDUPLICATION_PERIOD", "PARTICIPANT_PRUNED_DATA_ACCESSED": // in Options, sent with every command
		return setup
	case "JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED": // means nothing for a command
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

// categoryOf maps gRPC codes. INVALID_ARGUMENT (3) has two categories with the same meaning
// here; CANCELLED, UNKNOWN and DATA_LOSS have none.
var categoryOf = map[int]int{
	14: catTransientServerFailure, 10: catContention, 4: catDeadlineUnknown, 13: catInternal,
	3: catInvalidIndependent, 16: catCredentials, 7: catPermission, 9: catInvalidState,
	6: catResourceExists, 5: catResourceMissing, 11: catSeekAfterEnd, 12: catUnsupported,
}

// submitKind returns the meaning of an answer to a submission, nil for accepted. HTTP 400 and
// 409 are ambiguous: if there is an error object, it alone decides.
func submitKind(status int, e envelope) error {
	if status == http.StatusOK {
		return nil // for any body
	}
	if e.known && (status < 200 || status > 299) {
		switch e.meaning() {
		case duplicate:
			return nil // the command has taken effect, as its completion shows
		case transient:
			return dlt.ErrBusy
		case refused:
			return dlt.ErrRejected
		case setup:
			return dlt.ErrMisconfigured
		}
		// inFlight, too: the command's outcome depends on the attempt in flight.
		return dlt.ErrDoubt
	}
	switch {
	case status == http.StatusTooManyRequests:
		return dlt.ErrBusy
	case status == http.StatusRequestEntityTooLarge:
		return dlt.ErrRejected // a single command cannot be split
	case status == http.StatusBadRequest && e.plain:
		return dlt.ErrRejected // the body could not be decoded, and only the payload varies in it
	case status == http.StatusBadRequest, wire.Refuses(status):
		return dlt.ErrMisconfigured // a proxy's
	}
	// A plain 503 is a request timeout; the command goes on all the same.
	return dlt.ErrDoubt
}

// readKind returns the meaning of an answer that is not the expected one to a query.
func readKind(status int, e envelope) error {
	if e.known {
		switch e.meaning() {
		case transient:
			return dlt.ErrBusy
		case refused, setup:
			return dlt.ErrMisconfigured // repeating it changes nothing
		}
		return dlt.ErrDoubt
	}
	switch {
	case status == http.StatusTooManyRequests:
		return dlt.ErrBusy
	case status == http.StatusBadRequest, wire.Refuses(status):
		return dlt.ErrMisconfigured
	}
	return dlt.ErrDoubt
}

// reported returns the meaning of a completion's failure for its attempt; 0 if only an
// operator can find out.
func (m meaning) reported() batch.Reported {
	switch m {
	case duplicate:
		return batch.ReportedCommitted
	case transient, setup: // a wrong set-up must not burn the batch
		return batch.ReportedFailed
	case refused:
		return batch.ReportedInvalid
	case unclear, inFlight: // no trace of any meaning; the same command again will show
		return batch.ReportedUnknown
	}
	return 0
}
