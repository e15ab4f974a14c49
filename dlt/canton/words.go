package canton

import "net/http"

// meaning is the meaning of a failure for a command, both in the answer to a POST and in a
// completion.
type meaning uint8

const (
	// meansUnclear: it may have taken effect.
	meansUnclear meaning = iota
	// meansDuplicate: an earlier attempt was accepted; the command has taken effect.
	meansDuplicate
	// meansInFlight: this attempt was not accepted, because an earlier one is in flight.
	meansInFlight
	// meansTransient: this attempt had no effect, and the same command may succeed later.
	meansTransient
	// meansWaits: this attempt had no effect, because of the state of the participant, of the
	// network or of the command's inputs; the word does not say which. The same command may
	// succeed once a person has put that right.
	meansWaits
	// meansRefused: this attempt had no effect, and no other of the same command will.
	meansRefused
	// meansSetup: this attempt had no effect, nor would any other command.
	meansSetup
	// meansInternal: only an operator of the participant can find out.
	meansInternal
)

// String returns the name in words.
func (m meaning) String() string {
	return [...]string{"unclear", "duplicate", "in flight", "transient", "waits", "refused", "set-up", "internal"}[m]
}

// idMeanings is the table of error ids whose category is too wide for them. Only an id that stands
// here as meansRefused, and the categories that categoryMeanings calls so, ends a batch: these are
// the words of the engine and of the confirming participants about the command itself. The sources
// are classes of digital-asset/canton; each explains its id.
var idMeanings = map[string]meaning{
	// ConsistencyErrors.
	"DUPLICATE_COMMAND":            meansDuplicate,
	"SUBMISSION_ALREADY_IN_FLIGHT": meansInFlight,
	"INCONSISTENT":                 meansRefused, // an input was changed by another transaction
	"CONTRACT_NOT_FOUND":           meansRefused, // "occurs if there is contention on a contract"
	"UNSUPPORTED_CONTRACT_ID":      meansRefused,
	"DUPLICATE_CONTRACT_KEY":       meansRefused,
	"INCONSISTENT_CONTRACT_KEY":    meansTransient, // "Retry the transaction submission"

	// CommandExecutionErrors: the engine has interpreted the command.
	"DAML_FAILURE":                                        meansRefused,
	"DAML_INTERPRETATION_ERROR":                           meansRefused,
	"INTERPRETATION_USER_ERROR":                           meansRefused,
	"UNHANDLED_EXCEPTION":                                 meansRefused,
	"CONTRACT_NOT_ACTIVE":                                 meansRefused,
	"CONTRACT_KEY_NOT_FOUND":                              meansRefused,
	"WRONGLY_TYPED_CONTRACT":                              meansRefused,
	"DISCLOSED_CONTRACT_KEY_HASHING_ERROR":                meansRefused,
	"INTERPRETATION_CRYPTO_ERROR_MALFORMED_BYTE_ENCODING": meansRefused,
	"INTERPRETATION_CRYPTO_ERROR_MALFORMED_KEY":           meansRefused,
	"INTERPRETATION_CRYPTO_ERROR_MALFORMED_SIGNATURE":     meansRefused,
	// They are about this command, and other commands need not slow down for it.
	"FAILED_TO_DETERMINE_LEDGER_TIME": meansWaits,
	"INTERPRETATION_TIME_EXCEEDED":    meansWaits,
	// "package versions that are not supported by the participant": a newer one may take it.
	"ALLOWED_LANGUAGE_VERSIONS": meansWaits,

	// RequestValidationErrors. Bounds that lie in the future are reached, and clocks differ.
	"LEDGER_TIME_OUTSIDE_BOUNDS":       meansWaits,
	"INVALID_DEDUPLICATION_PERIOD":     meansSetup, // in Options, sent with every command
	"PARTICIPANT_PRUNED_DATA_ACCESSED": meansSetup,

	// SyncServiceInjectionError: an operator has to connect the participant.
	"NOT_CONNECTED_TO_ANY_SYNCHRONIZER": meansSetup,

	// TransactionProcessor.SubmissionErrors: "re-submit the transaction".
	"UNKNOWN_CONTRACT_SYNCHRONIZER": meansTransient,

	// LocalRejectError: the verdict of a confirming participant.
	"LOCAL_VERDICT_INACTIVE_CONTRACTS": meansRefused,

	// JsonApiErrors: it is about a list, and means nothing for a command.
	"JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED": meansInternal,
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

// categoryMeanings is the table of the categories, by their descriptions in ErrorCategory of
// digital-asset/canton. A category that does not stand here means internal.
//
// Categories 9 and 11 are about "the mutable state of the system", and that includes
// "configuration, parties, packages, users": nearly all ids of a participant that is not
// connected to its synchronizer are among them (TransactionRoutingError, whose errors "are never
// definite answers"), and so are a lack of traffic credit (SequencerErrors) and packages that
// are not vetted. So neither is final by itself.
var categoryMeanings = map[int]meaning{
	catTransientServerFailure: meansUnclear, // "the request might or might not have been processed"
	catContention:             meansTransient,
	catDeadlineUnknown:        meansUnclear, // "even if the request has completed successfully"
	catInternal:               meansInternal,
	catSecurityAlert:          meansRefused, // "non-retryable"
	catCredentials:            meansSetup,
	catPermission:             meansSetup,
	catInvalidIndependent:     meansRefused, // "invalid independent of the state of the system"
	catInvalidState:           meansWaits,
	catResourceExists:         meansUnclear, // what exists may be an earlier attempt's
	catResourceMissing:        meansWaits,
	catSeekAfterEnd:           meansInternal, // of reading only
	catUnsupported:            meansSetup,
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

// statusMeanings is the table of HTTP statuses of answers without the participant's error object,
// beside [wire.Refuses], which means setup: they are those of its HTTP server, or of a proxy. A
// status that stands in neither is unclear. Above all a plain 503 is a request timeout, and the
// command goes on all the same (docs/ledgers/canton.md#errors).
var statusMeanings = map[int]meaning{
	http.StatusTooManyRequests: meansTransient, // RFC 6585, section 4
	http.StatusBadRequest:      meansSetup,     // a proxy's
	// A body that one on the way does not take (RFC 9110, section 15.5.14).
	http.StatusRequestEntityTooLarge: meansWaits,
}

// ownField names the fields of a submission that come from Options, not from the batch.
const ownField = "user_id"

// meaning looks at the id first, since a category is often too wide, then at the category, and
// at the gRPC code if a redacted or old error has neither. An answer that stands in no table is
// internal, and so never final.
func (f failure) meaning() meaning {
	if f.id == "MISSING_FIELD" && f.context["field_name"] == ownField {
		return meansSetup // Options.UserID is "", and the token names no user
	}
	if m, ok := idMeanings[f.id]; ok {
		return m
	}
	category := f.category
	if category <= 0 {
		category = grpcCategories[f.grpc]
	}
	if m, ok := categoryMeanings[category]; ok {
		return m
	}
	return meansInternal
}

// isIndefinite reports whether the participant itself says that this is no definite answer: a
// submission of the same command may yet take effect.
func (f failure) isIndefinite() bool {
	word, said := f.context["definite_answer"]
	return said && word != "true"
}
