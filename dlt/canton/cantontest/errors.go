package cantontest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// errorCategory is a row of the table in docs/ledgers/canton.md#errors.
type errorCategory struct {
	grpcCode, httpStatus int
	isRetryable          bool
	isRedacted           bool
}

func categories() map[int]errorCategory {
	return map[int]errorCategory{
		1:  {grpcCode: 14, httpStatus: 503, isRetryable: true},
		2:  {grpcCode: 10, httpStatus: 409, isRetryable: true},
		3:  {grpcCode: 4, httpStatus: 504, isRetryable: true},
		4:  {grpcCode: 13, httpStatus: 500, isRedacted: true},
		5:  {grpcCode: 3, httpStatus: 400},
		6:  {grpcCode: 16, httpStatus: 401, isRedacted: true},
		7:  {grpcCode: 7, httpStatus: 403, isRedacted: true},
		8:  {grpcCode: 3, httpStatus: 400},
		9:  {grpcCode: 9, httpStatus: 400},
		10: {grpcCode: 6, httpStatus: 409},
		11: {grpcCode: 5, httpStatus: 404},
		12: {grpcCode: 11, httpStatus: 400, isRetryable: true},
		14: {grpcCode: 12, httpStatus: 501, isRedacted: true},
	}
}

// Errors returns the ids that the participant knows, with their categories: the ids of
// docs/ledgers/canton.md, and one for each category without an id there.
func Errors() map[string]int {
	return map[string]int{
		"SERVICE_NOT_RUNNING": 1, "NODE_IS_PASSIVE_REPLICA": 1, "SYNC_SERVICE_PASSIVE_REPLICA": 1,
		"PARTICIPANT_BACKPRESSURE": 2, "SEQUENCER_BACKPRESSURE": 2, "PARTICIPANT_OVERLOADED": 2, "THREADPOOL_OVERLOADED": 2,
		"HEAP_MEMORY_OVER_LIMIT": 2, "MAXIMUM_NUMBER_OF_STREAMS": 2, "SUBMISSION_ALREADY_IN_FLIGHT": 2,
		"SUBMISSION_DURING_SHUTDOWN": 2, "SEQUENCER_REQUEST_FAILED": 2, "NOT_SEQUENCED_TIMEOUT": 2,
		"MEDIATOR_SAYS_TX_TIMED_OUT": 2, "LOCAL_VERDICT_LOCKED_CONTRACTS": 2, "LOCAL_VERDICT_TIMEOUT": 2,
		"LOCAL_VERDICT_LEDGER_TIME_OUT_OF_BOUND": 2, "LOCAL_VERDICT_PREPARATION_TIME_OUT_OF_BOUND": 2,
		"LOCAL_VERDICT_MAX_RECORD_TIME_EXCEEDED": 2, "NO_VIEW_WITH_VALID_RECIPIENTS": 2, "CHOSEN_MEDIATOR_IS_INACTIVE": 2,
		"REQUEST_TIME_OUT": 3, "REQUEST_DEADLINE_EXCEEDED": 3,
		"LEDGER_API_INTERNAL_ERROR": 4, "SECURITY_ALERT": 5, "UNAUTHENTICATED": 6, "PERMISSION_DENIED": 7,
		"MISSING_FIELD": 8, "INVALID_FIELD": 8, "INVALID_ARGUMENT": 8, "MALFORMED_REQUEST": 8, "MAX_REQUEST_SIZE_EXCEEDED": 8,
		"DAML_FAILURE": 9, "DAML_INTERPRETATION_ERROR": 9, "INCONSISTENT": 9, "LEDGER_TIME_OUTSIDE_BOUNDS": 9,
		"INVALID_DEDUPLICATION_PERIOD": 9, "PARTICIPANT_PRUNED_DATA_ACCESSED": 9, "PACKAGE_NOT_VETTED_BY_RECIPIENTS": 9,
		"NOT_CONNECTED_TO_ANY_SYNCHRONIZER": 9, "UNKNOWN_CONTRACT_SYNCHRONIZER": 9,
		"NOT_CONNECTED_TO_SYNCHRONIZER": 9, "INVALID_PRESCRIBED_SYNCHRONIZER_ID": 9, "SUBMITTERS_NOT_ACTIVE": 9,
		"INFORMEES_NOT_ACTIVE": 9, "NO_COMMON_SYNCHRONIZER": 9, "NO_SYNCHRONIZER_FOR_SUBMISSION": 9,
		"NOT_CONNECTED_TO_ALL_CONTRACT_SYNCHRONIZERS": 9, "UNKNOWN_CONTRACT_SYNCHRONIZERS": 9,
		"UNABLE_TO_GET_TOPOLOGY_SNAPSHOT": 9, "SEQUENCER_NOT_ENOUGH_TRAFFIC_CREDIT": 9, "MEDIATOR_INVALID_MESSAGE": 9,
		"CANNOT_PERFORM_ALL_VALIDATIONS": 9, "PACKAGE_SELECTION_FAILED": 9,
		"DUPLICATE_COMMAND": 10, "DUPLICATE_CONTRACT_KEY": 10,
		"CONTRACT_NOT_FOUND": 11, "LOCAL_VERDICT_INACTIVE_CONTRACTS": 11, "UPDATE_NOT_FOUND": 11,
		"SUBMISSION_SYNCHRONIZER_NOT_READY": 11, "NO_SYNCHRONIZER_ON_WHICH_ALL_SUBMITTERS_CAN_SUBMIT": 11,
		"UNKNOWN_SUBMITTERS": 11, "UNKNOWN_INFORMEES": 11, "SYNCHRONIZER_WITHOUT_MEDIATOR": 11, "PACKAGE_NOT_FOUND": 11,
		"OFFSET_AFTER_LEDGER_END": 12, "UNSUPPORTED_OPERATION": 14,
	}
}

// refusalError is an error of the participant, before encoding.
type refusalError struct {
	id      string
	cause   string
	context map[string]string
	// definiteAnswer is a completion's definite_answer. If it is "", the key is left out, as in
	// the verdicts of mediators and of confirming participants.
	definiteAnswer string
}

func (r refusalError) category() int { return Errors()[r.id] }

// metadata returns the context of an error with the keys of a completion's ErrorInfo.
func (r refusalError) metadata(definite string) map[string]string {
	m := maps.Clone(r.context)
	if m == nil {
		m = map[string]string{}
	}
	m["category"] = strconv.Itoa(r.category())
	if definite != "" {
		m["definite_answer"] = definite
	}
	m["participant"] = "participant1"
	m["tid"] = "0af7651916cd43dd8448eb211c80319c"
	return m
}

// answer is an HTTP answer, before a fault changes it.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func jsonAnswer(status int, v any) answer {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail for maps, slices, strings and numbers
	}
	return answer{status, "application/json", b}
}

func textAnswer(status int, text string) answer {
	return answer{status, "text/plain; charset=UTF-8", []byte(text)}
}

func pageAnswer(status int) answer {
	return answer{status, "text/html", fmt.Appendf(nil, "<html><h1>%d %s</h1></html>\n", status, http.StatusText(status))}
}

// answer returns the answer with the error object (docs/ledgers/canton.md#errors).
func (r refusalError) answer() answer {
	if r.id == "JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED" { // has category 2 and this status
		return jsonAnswer(http.StatusRequestEntityTooLarge, r.errorObject(2))
	}
	return jsonAnswer(categories()[r.category()].httpStatus, r.errorObject(r.category()))
}

func (r refusalError) errorObject(number int) map[string]any {
	c := categories()[number]
	out := map[string]any{
		"code": r.id, "cause": r.cause, "correlationId": nil, "traceId": "0af7651916cd43dd8448eb211c80319c",
		"context": r.metadata(strconv.FormatBool(r.id == "DUPLICATE_COMMAND")), "resources": []any{}, "errorCategory": number, "grpcCodeValue": c.grpcCode,
		"retryInfo": nil, "definiteAnswer": nil,
	}
	if c.isRetryable {
		out["retryInfo"] = "1 second"
	}
	if c.isRedacted {
		out["code"], out["cause"] = "NA", "An error occurred. Please contact the operator and inquire about the request <no-correlation-id>"
		out["context"] = map[string]string{}
		if r.context["ledger_api_error"] != "" {
			out["context"] = map[string]string{"ledger_api_error": r.context["ledger_api_error"]}
		}
	}
	return out
}

// completionStatus returns the status of a completion. Its message has Canton's form. The details
// are protobuf, with their decoded form unless old is true.
func (r refusalError) completionStatus(old bool) map[string]any {
	c := categories()[r.category()]
	metadata := r.metadata(r.definiteAnswer)
	info := errorInfo(r.id, "com.digitalasset.canton", metadata)
	detail := map[string]any{
		"typeUrl": "type.googleapis.com/google.rpc.ErrorInfo", "value": base64.StdEncoding.EncodeToString(info),
		"unknownFields": map[string]any{"fields": map[string]any{}},
	}
	if !old {
		detail["valueDecoded"] = map[string]any{"reason": r.id, "domain": "com.digitalasset.canton", "metadata": metadata}
	}
	details := []any{detail}
	if c.isRetryable {
		details = append(details, map[string]any{
			"typeUrl": "type.googleapis.com/google.rpc.RetryInfo", "value": "CgIIAQ==", "unknownFields": map[string]any{"fields": map[string]any{}},
		})
	}
	message := fmt.Sprintf("%s(%d,0af76519): %s", r.id, r.category(), r.cause)
	if c.isRedacted {
		message, details = "An error occurred. Please contact the operator and inquire about the request <no-correlation-id>", []any{}
	}
	return map[string]any{"code": c.grpcCode, "message": message, "details": details}
}

// errorInfo encodes google.rpc.ErrorInfo.
func errorInfo(reason, domain string, metadata map[string]string) []byte {
	field := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	b := field(field(nil, 1, reason), 2, domain)
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		entry := field(field(nil, 1, k), 2, metadata[k])
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), entry)
	}
	return b
}
