package canton

import "net/http"

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
	// waits: this attempt had no effect, because of the state of the participant, of the
	// network or of the command's inputs; the word does not say which. The same command may
	// succeed once a person has put that right.
	waits
	// refused: this attempt had no effect, and no other of the same command will.
	refused
	// setup: this attempt had no effect, nor would any other command.
	setup
	// internal: only an operator of the participant can find out.
	internal
)

// String returns the name in words.
func (m meaning) String() string {
	return [...]string{"unclear", "duplicate", "in flight", "transient", "waits", "refused", "set-up", "internal"}[m]
}

// idWords is the table of error ids whose category is too wide for them. Only an id that stands
// here as refused, and the categories that categoryWords calls so, ends a batch: these are the
// words of the engine and of the confirming participants about the command itself. The sources are
// classes of digital-asset/canton; each explains its id.
var idWords = map[string]meaning{
	// ConsistencyErrors.
	"DUPLICATE_COMMAND":            duplicate,
	"SUBMISSION_ALREADY_IN_FLIGHT": inFlight,
	"INCONSISTENT":                 refused, // an input was changed by another transaction
	"CONTRACT_NOT_FOUND":           refused, // "occurs if there is contention on a contract"
	"UNSUPPORTED_CONTRACT_ID":      refused,
	"DUPLICATE_CONTRACT_KEY":       refused,
	"INCONSISTENT_CONTRACT_KEY":    transient, // "Retry the transaction submission"

	// CommandExecutionErrors: the engine has interpreted the command.
	"DAML_FAILURE":                                        refused,
	"DAML_INTERPRETATION_ERROR":                           refused,
	"INTERPRETATION_USER_ERROR":                           refused,
	"UNHANDLED_EXCEPTION":                                 refused,
	"CONTRACT_NOT_ACTIVE":                                 refused,
	"CONTRACT_KEY_NOT_FOUND":                              refused,
	"WRONGLY_TYPED_CONTRACT":                              refused,
	"DISCLOSED_CONTRACT_KEY_HASHING_ERROR":                refused,
	"INTERPRETATION_CRYPTO_ERROR_MALFORMED_BYTE_ENCODING": refused,
	"INTERPRETATION_CRYPTO_ERROR_MALFORMED_KEY":           refused,
	"INTERPRETATION_CRYPTO_ERROR_MALFORMED_SIGNATURE":     refused,
	// They are about this command, and other commands need not slow down for it.
	"FAILED_TO_DETERMINE_LEDGER_TIME": waits,
	"INTERPRETATION_TIME_EXCEEDED":    waits,
	// "package versions that are not supported by the participant": a newer one may take it.
	"ALLOWED_LANGUAGE_VERSIONS": waits,

	// RequestValidationErrors. Bounds that lie in the future are reached, and clocks differ.
	"LEDGER_TIME_OUTSIDE_BOUNDS":       waits,
	"INVALID_DEDUPLICATION_PERIOD":     setup, // in Options, sent with every command
	"PARTICIPANT_PRUNED_DATA_ACCESSED": setup,

	// SyncServiceInjectionError: an operator has to connect the participant.
	"NOT_CONNECTED_TO_ANY_SYNCHRONIZER": setup,

	// TransactionProcessor.SubmissionErrors: "re-submit the transaction".
	"UNKNOWN_CONTRACT_SYNCHRONIZER": transient,

	// LocalRejectError: the verdict of a confirming participant.
	"LOCAL_VERDICT_INACTIVE_CONTRACTS": refused,

	// JsonApiErrors: it is about a list, and means nothing for a command.
	"JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED": internal,
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

// categoryWords is the table of the categories, by their descriptions in ErrorCategory of
// digital-asset/canton. A category that does not stand here means internal.
//
// Categories 9 and 11 are about "the mutable state of the system", and that includes
// "configuration, parties, packages, users": nearly all ids of a participant that is not
// connected to its synchronizer are among them (TransactionRoutingError, whose errors "are never
// definite answers"), and so are a lack of traffic credit (SequencerErrors) and packages that
// are not vetted. So neither is final by itself.
var categoryWords = map[int]meaning{
	catTransientServerFailure: unclear, // "the request might or might not have been processed"
	catContention:             transient,
	catDeadlineUnknown:        unclear, // "even if the request has completed successfully"
	catInternal:               internal,
	catSecurityAlert:          refused, // "non-retryable"
	catCredentials:            setup,
	catPermission:             setup,
	catInvalidIndependent:     refused, // "invalid independent of the state of the system"
	catInvalidState:           waits,
	catResourceExists:         unclear, // what exists may be an earlier attempt's
	catResourceMissing:        waits,
	catSeekAfterEnd:           internal, // of reading only
	catUnsupported:            setup,
}

// grpcCategories is the table of gRPC codes, for old and redacted errors without a category
// (ErrorCategory of digital-asset/canton). INVALID_ARGUMENT (3) has two categories with the same
// meaning here; CANCELLED, UNKNOWN and DATA_LOSS have none. RESOURCE_EXHAUSTED is a rate limit.
var grpcCategories = map[int]int{
	14: catTransientServerFailure, 10: catContention, 4: catDeadlineUnknown, 13: catInternal,
	3: catInvalidIndependent, 16: catCredentials, 7: catPermission, 9: catInvalidState,
	6: catResourceExists, 5: catResourceMissing, 11: catSeekAfterEnd, 12: catUnsupported,
	8: catContention,
}

// plainWords is the table of HTTP statuses of answers without the participant's error object,
// beside [wire.Refuses], which means setup: they are those of its HTTP server, or of a proxy. A
// status that stands in neither is unclear. Above all a plain 503 is a request timeout, and the
// command goes on all the same (docs/ledgers/canton.md#errors).
var plainWords = map[int]meaning{
	http.StatusTooManyRequests: transient, // RFC 6585, section 4
	http.StatusBadRequest:      setup,     // a proxy's
	// A body that one on the way does not take (RFC 9110, section 15.5.14).
	http.StatusRequestEntityTooLarge: waits,
}

// ownField names the fields of a submission that come from Options, not from the batch.
const ownField = "user_id"

// meaning looks at the id first, since a category is often too wide, then at the category, and
// at the gRPC code if a redacted or old error has neither. An answer that stands in no table is
// internal, and so never final.
func (f failure) meaning() meaning {
	if f.id == "MISSING_FIELD" && f.context["field_name"] == ownField {
		return setup // Options.UserID is "", and the token names no user
	}
	if m, ok := idWords[f.id]; ok {
		return m
	}
	category := f.category
	if category <= 0 {
		category = grpcCategories[f.grpc]
	}
	if m, ok := categoryWords[category]; ok {
		return m
	}
	return internal
}

// indefinite reports whether the participant itself says that this is no definite answer: a
// submission of the same command may yet take effect.
func (f failure) indefinite() bool {
	word, said := f.context["definite_answer"]
	return said && word != "true"
}
