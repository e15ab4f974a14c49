package canton

import "net/http"

// meaning is the meaning of a failure for a command, both in the answer to a POST and in a
// completion.
type meaning uint8

const (
	// meansUnclear: the attempt may have taken effect.
	meansUnclear meaning = iota
	// meansDuplicate: an earlier attempt was accepted; the command has taken effect.
	meansDuplicate
	// meansInFlight: this attempt was not accepted, because an earlier one is in flight.
	meansInFlight
	// meansTransient: this attempt had no effect, and the same command may succeed later.
	meansTransient
	// meansNotYet: this attempt had no effect, because of the state of the participant, of the
	// network or of the command's inputs; the error does not say which. The same command may
	// succeed once a person has corrected that state.
	meansNotYet
	// meansRefused: this attempt had no effect, and no other attempt of the command will have one.
	meansRefused
	// meansMisconfigured: this attempt had no effect, and no other command would have one either.
	meansMisconfigured
	// meansInternal: only an operator of the participant can find the outcome.
	meansInternal
)

// String returns the name in words.
func (m meaning) String() string {
	return [...]string{"unclear", "duplicate", "in flight", "transient", "waits", "refused", "set-up", "internal"}[m]
}

// idMeanings is the table of error ids whose category is too wide for them. A batch is refused for
// good only by an id that is meansRefused here, or by a category that is so in categoryMeanings:
// these are errors of the engine and of the confirming participants about the command itself. The
// sources are classes of digital-asset/canton, which explain each id.
var idMeanings = map[string]meaning{
	// The class ConsistencyErrors.
	"DUPLICATE_COMMAND":            meansDuplicate,
	"SUBMISSION_ALREADY_IN_FLIGHT": meansInFlight,
	"INCONSISTENT":                 meansRefused, // another transaction has changed an input
	"CONTRACT_NOT_FOUND":           meansRefused, // "occurs if there is contention on a contract"
	"UNSUPPORTED_CONTRACT_ID":      meansRefused,
	"DUPLICATE_CONTRACT_KEY":       meansRefused,
	"INCONSISTENT_CONTRACT_KEY":    meansTransient, // "Retry the transaction submission"

	// The class CommandExecutionErrors: the engine has interpreted the command.
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
	// These errors are about this command, so other commands need not slow down.
	"FAILED_TO_DETERMINE_LEDGER_TIME": meansNotYet,
	"INTERPRETATION_TIME_EXCEEDED":    meansNotYet,
	// "package versions that are not supported by the participant": a newer one may accept it.
	"ALLOWED_LANGUAGE_VERSIONS": meansNotYet,

	// The class RequestValidationErrors. A bound in the future will be reached, and clocks differ.
	"LEDGER_TIME_OUTSIDE_BOUNDS":       meansNotYet,
	"INVALID_DEDUPLICATION_PERIOD":     meansMisconfigured, // the period of Options, which is sent with every command
	"PARTICIPANT_PRUNED_DATA_ACCESSED": meansMisconfigured,

	// The class SyncServiceInjectionError: an operator has to connect the participant.
	"NOT_CONNECTED_TO_ANY_SYNCHRONIZER": meansMisconfigured,

	// The class TransactionProcessor.SubmissionErrors: "re-submit the transaction".
	"UNKNOWN_CONTRACT_SYNCHRONIZER": meansTransient,

	// The class LocalRejectError: the verdict of a confirming participant.
	"LOCAL_VERDICT_INACTIVE_CONTRACTS": meansRefused,

	// The class JsonApiErrors: the error is about a list, and says nothing about a command.
	"JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED": meansInternal,
}

// The error categories (docs/ledgers/canton.md#errors).
const (
	categoryTransientServerFailure = 1
	categoryContention             = 2
	categoryDeadlineUnknown        = 3
	categoryInternal               = 4
	categorySecurityAlert          = 5
	categoryCredentials            = 6
	categoryPermission             = 7
	categoryInvalidIndependent     = 8
	categoryInvalidState           = 9
	categoryResourceExists         = 10
	categoryResourceMissing        = 11
	categorySeekAfterEnd           = 12
	categoryUnsupported            = 14
)

// categoryMeanings is the table of the categories, from their descriptions in ErrorCategory of
// digital-asset/canton. Any other category means meansInternal.
//
// Categories 9 and 11 are about "the mutable state of the system", and that includes
// "configuration, parties, packages, users": nearly all ids of a participant that is not
// connected to its synchronizer are among them (TransactionRoutingError, whose errors "are never
// definite answers"), and so are a lack of traffic credit (SequencerErrors) and packages that
// are not vetted. So neither is final by itself.
var categoryMeanings = map[int]meaning{
	categoryTransientServerFailure: meansUnclear, // "the request might or might not have been processed"
	categoryContention:             meansTransient,
	categoryDeadlineUnknown:        meansUnclear, // "even if the request has completed successfully"
	categoryInternal:               meansInternal,
	categorySecurityAlert:          meansRefused, // "non-retryable"
	categoryCredentials:            meansMisconfigured,
	categoryPermission:             meansMisconfigured,
	categoryInvalidIndependent:     meansRefused, // "invalid independent of the state of the system"
	categoryInvalidState:           meansNotYet,
	categoryResourceExists:         meansUnclear, // the existing resource may be an earlier attempt's
	categoryResourceMissing:        meansNotYet,
	categorySeekAfterEnd:           meansInternal, // an error of reading only
	categoryUnsupported:            meansMisconfigured,
}

// grpcCategories is the table of gRPC codes, for old and redacted errors without a category
// (ErrorCategory of digital-asset/canton). INVALID_ARGUMENT (3) has two categories with the same
// meaning here; CANCELLED, UNKNOWN and DATA_LOSS have none. RESOURCE_EXHAUSTED is a rate limit.
var grpcCategories = map[int]int{
	14: categoryTransientServerFailure, 10: categoryContention, 4: categoryDeadlineUnknown, 13: categoryInternal,
	3: categoryInvalidIndependent, 16: categoryCredentials, 7: categoryPermission, 9: categoryInvalidState,
	6: categoryResourceExists, 5: categoryResourceMissing, 11: categorySeekAfterEnd, 12: categoryUnsupported,
	8: categoryContention,
}

// statusMeanings is the table of HTTP statuses of answers without the participant's error object,
// in addition to [wire.Refuses], which means meansMisconfigured. Such answers are those of the
// participant's HTTP server, or of a proxy. Any other status is unclear: a plain 503, above all,
// is a request timeout, and the command goes on (docs/ledgers/canton.md#errors).
var statusMeanings = map[int]meaning{
	http.StatusTooManyRequests: meansTransient,     // RFC 6585, section 4
	http.StatusBadRequest:      meansMisconfigured, // a proxy's answer
	// A proxy or server on the way does not accept the body (RFC 9110, section 15.5.14).
	http.StatusRequestEntityTooLarge: meansNotYet,
}

// userIDField is the name of the submission's field that comes from Options, not from the batch.
const userIDField = "user_id"

// meaning returns the meaning of a failure. It looks first at the id, since a category is often
// too wide, then at the category, and at the gRPC code if a redacted or old error has neither. A
// failure that is in no table means meansInternal, and so is never final.
func (f participantError) meaning() meaning {
	if f.id == "MISSING_FIELD" && f.context["field_name"] == userIDField {
		return meansMisconfigured // Options.UserID is "", and the token names no user
	}
	if m, ok := idMeanings[f.id]; ok {
		return m
	}
	category := f.category
	if category <= 0 {
		category = grpcCategories[f.grpcCode]
	}
	if m, ok := categoryMeanings[category]; ok {
		return m
	}
	return meansInternal
}

// isIndefinite reports whether the participant says that its answer is not definite: a submission
// of the same command may then still take effect.
func (f participantError) isIndefinite() bool {
	word, said := f.context["definite_answer"]
	return said && word != "true"
}
