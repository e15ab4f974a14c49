package canton

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Unknown ids have the meaning of their category in the table of docs/ledgers/canton.md#errors.
func TestCategories(t *testing.T) {
	for _, c := range []struct {
		name               string
		category, grpcCode int
		httpStatus         int
		wantOfPost         batch.ErrorKind
		wantOfCompletion   batch.Reported
		wantOfQuery        batch.ErrorKind
	}{
		{"TransientServerFailure", 1, 14, 503, batch.KindDoubt, batch.ReportedUnknown, batch.KindDoubt},
		{"ContentionOnSharedResources", 2, 10, 409, batch.KindBusy, batch.ReportedFailed, batch.KindBusy},
		{"DeadlineExceededRequestStateUnknown", 3, 4, 504, batch.KindDoubt, batch.ReportedUnknown, batch.KindDoubt},
		{"SystemInternalAssumptionViolated", 4, 13, 500, batch.KindDoubt, 0, batch.KindDoubt},
		{"SecurityAlert", 5, 3, 400, batch.KindRejected, batch.ReportedInvalid, batch.KindMisconfigured},
		{"InvalidAuthenticationCredentials", 6, 16, 401, batch.KindMisconfigured, batch.ReportedUnknown, batch.KindMisconfigured},
		{"InsufficientPermission", 7, 7, 403, batch.KindMisconfigured, batch.ReportedUnknown, batch.KindMisconfigured},
		{"InvalidIndependentOfSystemState", 8, 3, 400, batch.KindRejected, batch.ReportedInvalid, batch.KindMisconfigured},
		{"InvalidGivenCurrentSystemStateOther", 9, 9, 400, batch.KindNotYet, batch.ReportedUnknown, batch.KindMisconfigured},
		{"InvalidGivenCurrentSystemStateResourceExists", 10, 6, 409, batch.KindDoubt, batch.ReportedUnknown, batch.KindDoubt},
		{"InvalidGivenCurrentSystemStateResourceMissing", 11, 5, 404, batch.KindNotYet, batch.ReportedUnknown, batch.KindMisconfigured},
		{"InvalidGivenCurrentSystemStateSeekAfterEnd", 12, 11, 400, batch.KindDoubt, 0, batch.KindDoubt},
		{"a category of the future", 13, 2, 500, batch.KindDoubt, 0, batch.KindDoubt},
		{"InternalUnsupportedOperation", 14, 12, 501, batch.KindMisconfigured, batch.ReportedUnknown, batch.KindMisconfigured},
		{"legacy RESOURCE_EXHAUSTED", -1, 8, 429, batch.KindBusy, batch.ReportedFailed, batch.KindBusy},
		{"legacy CANCELLED", -1, 1, 499, batch.KindDoubt, 0, batch.KindDoubt},
		{"legacy UNKNOWN", -1, 2, 500, batch.KindDoubt, 0, batch.KindDoubt},
		{"legacy DATA_LOSS", -1, 15, 500, batch.KindDoubt, 0, batch.KindDoubt},
		{"legacy UNAVAILABLE", -1, 14, 503, batch.KindDoubt, batch.ReportedUnknown, batch.KindDoubt},
		{"legacy ABORTED", -1, 10, 409, batch.KindBusy, batch.ReportedFailed, batch.KindBusy},
		{"legacy INVALID_ARGUMENT", -1, 3, 400, batch.KindRejected, batch.ReportedInvalid, batch.KindMisconfigured},
		{"legacy DEADLINE_EXCEEDED", -1, 4, 504, batch.KindDoubt, batch.ReportedUnknown, batch.KindDoubt},
		{"legacy INTERNAL", -1, 13, 500, batch.KindDoubt, 0, batch.KindDoubt},
		{"legacy UNAUTHENTICATED", -1, 16, 401, batch.KindMisconfigured, batch.ReportedUnknown, batch.KindMisconfigured},
		{"legacy PERMISSION_DENIED", -1, 7, 403, batch.KindMisconfigured, batch.ReportedUnknown, batch.KindMisconfigured},
		{"legacy FAILED_PRECONDITION", -1, 9, 400, batch.KindNotYet, batch.ReportedUnknown, batch.KindMisconfigured},
		{"legacy ALREADY_EXISTS", -1, 6, 409, batch.KindDoubt, batch.ReportedUnknown, batch.KindDoubt},
		{"legacy NOT_FOUND", -1, 5, 404, batch.KindNotYet, batch.ReportedUnknown, batch.KindMisconfigured},
		{"legacy OUT_OF_RANGE", -1, 11, 400, batch.KindDoubt, 0, batch.KindDoubt},
		{"legacy UNIMPLEMENTED", -1, 12, 501, batch.KindMisconfigured, batch.ReportedUnknown, batch.KindMisconfigured},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := fmt.Appendf(nil, `{"code":"NEVER_HEARD_OF","cause":"why","context":{"category":"%d"},"errorCategory":%d,"grpcCodeValue":%d,"retryInfo":null}`, c.category, c.category, c.grpcCode)
			e := parseEnvelope("application/json", body)
			assert.True(t, e.isParticipants)
			assert.Equal(t, c.wantOfPost, kindOf(submitKind(c.httpStatus, e)))
			assert.Equal(t, c.wantOfQuery, kindOf(readKind(c.httpStatus, e)))
			assert.Equal(t, c.wantOfCompletion, e.participantError.reportedState())

			// If there is an error object, the HTTP status does not matter.
			for _, other := range []int{400, 401, 404, 409, 413, 429, 500, 503} {
				assert.Equal(t, c.wantOfPost, kindOf(submitKind(other, e)), "with HTTP %d", other)
			}
		})
	}
}

func kindOf(err error) batch.ErrorKind { return dlt.Kind(err) }

// Redacted errors have the id NA, no context, and still a category.
func TestRedactedErrors(t *testing.T) {
	for category, want := range map[int]batch.ErrorKind{
		4: batch.KindDoubt, 5: batch.KindRejected, 6: batch.KindMisconfigured, 7: batch.KindMisconfigured, 14: batch.KindMisconfigured,
		10: batch.KindDoubt, // may have been a duplicate
	} {
		e := parseEnvelope("application/json", fmt.Appendf(nil, `{"code":"NA","cause":"An error occurred.","context":{},"errorCategory":%d,"grpcCodeValue":0}`, category))
		assert.Equal(t, want, kindOf(submitKind(500, e)), "category %d", category)
	}
}

// Answers without the participant's error object have these meanings.
func TestPlainAnswers(t *testing.T) {
	for _, c := range []struct {
		name        string
		status      int
		contentType string
		body        string
		wantOfPost  batch.ErrorKind
		wantOfQuery batch.ErrorKind
	}{
		{"accepted", 200, "application/json", "{}", "", batch.KindDoubt},
		{"accepted, and the body is lost", 200, "", "", "", batch.KindDoubt},
		{"a body that cannot be decoded", 400, "text/plain; charset=UTF-8", "Invalid value for: body (...)", batch.KindRejected, batch.KindMisconfigured},
		{"a proxy's 400", 400, "text/html", "<h1>", batch.KindMisconfigured, batch.KindMisconfigured},
		{"a proxy's 401", 401, "text/html", "<h1>", batch.KindMisconfigured, batch.KindMisconfigured},
		{"a proxy's 403", 403, "text/html", "<h1>", batch.KindMisconfigured, batch.KindMisconfigured},
		{"another place", 404, "text/plain", "The requested resource could not be found.", batch.KindMisconfigured, batch.KindMisconfigured},
		{"a plain 409", 409, "text/html", "", batch.KindDoubt, batch.KindDoubt},
		{"plain text of another 400", 400, "text/plain", "Bad Request", batch.KindMisconfigured, batch.KindMisconfigured},
		{"the version of a header", 400, "text/plain", "Invalid value for: header Authorization", batch.KindMisconfigured, batch.KindMisconfigured},
		{"too large", 413, "text/plain", "", batch.KindRejected, batch.KindMisconfigured},
		{"too large for a proxy", 413, "text/html", "", batch.KindNotYet, batch.KindMisconfigured},
		{"a plain 429", 429, "", "", batch.KindBusy, batch.KindBusy},
		{"the server is broken", 500, "text/plain", "There was an internal server error.", batch.KindDoubt, batch.KindDoubt},
		{"bad gateway", 502, "text/html", "", batch.KindDoubt, batch.KindDoubt},
		{"the request timeout", 503, "text/plain", "The server was not able to produce a timely response", batch.KindDoubt, batch.KindDoubt},
		{"gateway timeout", 504, "text/html", "", batch.KindDoubt, batch.KindDoubt},
		{"a redirect", 307, "", "", batch.KindMisconfigured, batch.KindMisconfigured},
		{"done, look there", 303, "", "", batch.KindDoubt, batch.KindDoubt},
		{"another success", 202, "", "", batch.KindDoubt, batch.KindDoubt},
		{"a success with an error inside", 202, "application/json", `{"code":"DUPLICATE_COMMAND","errorCategory":10}`, batch.KindDoubt, batch.KindDoubt},
		{"somebody else's JSON", 409, "application/json", `{"code":"DUPLICATE_COMMAND"}`, batch.KindDoubt, batch.KindDoubt},
		{"an error object in the wrong shape", 409, "application/json", `{"code":{"a":1},"errorCategory":"2"}`, batch.KindDoubt, batch.KindDoubt},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := parseEnvelope(c.contentType, []byte(c.body))
			assert.Equal(t, c.wantOfPost, kindOf(submitKind(c.status, e)))
			assert.Equal(t, c.wantOfQuery, kindOf(readKind(c.status, e)))
		})
	}
}

func TestListOverflowIsNoWordAboutACommand(t *testing.T) {
	e := parseEnvelope("application/json", []byte(`{"code":"JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED","errorCategory":2,"grpcCodeValue":10,"retryInfo":"1 second"}`))
	assert.Equal(t, batch.KindDoubt, kindOf(submitKind(http.StatusRequestEntityTooLarge, e)))
}

func TestParseScalaDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"1 second": time.Second, "10 seconds": 10 * time.Second, "500 milliseconds": 500 * time.Millisecond, "1 minute": time.Minute,
		"3 nanoseconds": 3, "7 microseconds": 7 * time.Microsecond, "1 hour": time.Hour, "2 hours": time.Hour, "1 day": time.Hour,
		"9223372036854775807 days": time.Hour, " 1 second ": time.Second,
		"": 0, "second": 0, "1": 0, "1 parsec": 0, "-1 second": 0, "0 seconds": 0, "1.5 seconds": 0, "Duration.Inf": 0, "99999999999999999999 seconds": 0,
	} {
		assert.Equal(t, want, parseScalaDuration(s), "%q", s)
	}
	for s, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "99999": time.Hour, "-1": 0, "soon": 0} {
		assert.Equal(t, want, retryAfter(http.Header{"Retry-After": {s}}), "%q", s)
	}
}

func TestRejections(t *testing.T) {
	info := func(reason, category string) string { // encodes the fields 1, the reason, and 3, the category
		return encodeInfo(reason, map[string]string{"category": category})
	}
	for _, c := range []struct {
		name, status string
		want         meaning
	}{
		{"the details win", `{"code":10,"message":"INCONSISTENT(9,x): no","details":[{"typeUrl":"type.googleapis.com/google.rpc.ErrorInfo","value":"` + info("NOT_SEQUENCED_TIMEOUT", "2") + `"}]}`, meansTransient},
		{"decoded only", `{"code":9,"message":"","details":[{"typeUrl":"type.googleapis.com/google.rpc.ErrorInfo","value":"","valueDecoded":{"reason":"NOT_SEQUENCED_TIMEOUT","metadata":{"category":"2"}}}]}`, meansTransient},
		{"broken base64, decoded", `{"code":9,"message":"","details":[{"typeUrl":"type.googleapis.com/google.rpc.ErrorInfo","value":"?","valueDecoded":{"reason":"DUPLICATE_COMMAND"}}]}`, meansDuplicate},
		{"other details", `{"code":10,"message":"","details":[{"typeUrl":"type.googleapis.com/google.rpc.RetryInfo","value":"CgIIAQ=="}]}`, meansTransient},
		{"message only", `{"code":6,"message":"DUPLICATE_COMMAND(10,abc): twice"}`, meansDuplicate},
		{"message over lines", `{"code":9,"message":"INCONSISTENT(9,abc): a\nb"}`, meansRefused},
		{"code only", `{"code":4,"message":"An error occurred."}`, meansUnclear},
		{"a code that is ambiguous", `{"code":6,"message":"twice"}`, meansUnclear},
		{"a code that means nothing", `{"code":2,"message":""}`, meansInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := parseElement([]byte(`{"completionResponse":{"Completion":{"value":{"commandId":"b","offset":1,"status":` + c.status + `}}}}`))
			if assert.NoError(t, err) {
				assert.Equal(t, c.want, e.completion.failure().meaning())
			}
		})
	}
}

func TestParseElement(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"completionResponse":{"Empty":{}}}`:                                                              true,
		`{"completionResponse":{"OffsetCheckpoint":{"value":{"offset":0}}}}`:                               true,
		`{"completionResponse":{"OffsetCheckpoint":{"value":{}}}}`:                                         false,
		`{"completionResponse":{"OffsetCheckpoint":{"value":{"offset":"7"}}}}`:                             false,
		`{"completionResponse":{"Completion":{"value":{"commandId":"b","offset":1,"status":{"code":0}}}}}`: true,
		`{"completionResponse":{"Completion":{"value":{"commandId":"b","offset":1}}}}`:                     false,
		`{"completionResponse":{"Completion":{"value":{"commandId":"b","offset":0,"status":{"code":0}}}}}`: false,
		`{"completionResponse":{"Completion":{"value":{"offset":1,"status":{"code":0}}}}}`:                 false,
		`{"completionResponse":{"Completion":{"commandId":"b","offset":1,"status":{"code":0}}}}`:           false,
		`{"completionResponse":{"Ascension":{"value":{}}}}`:                                                false,
		`{"completionResponse":{}}`: false,
		`{"completionResponse":{"Empty":{},"Completion":{"value":{"commandId":"b","offset":1,"status":{"code":0}}}}}`: false,
		`{}`: false, `[]`: false, `null`: false, ``: false,
		`{"code":"UNAUTHENTICATED","errorCategory":6,"grpcCodeValue":16}`: true,
	} {
		e, err := parseElement([]byte(text))
		assert.Equal(t, ok, err == nil, "%s: %v", text, err)
		if err != nil {
			assert.Zero(t, e)
		}
	}
}

func TestCompletionsOfThisClient(t *testing.T) {
	for _, c := range []struct {
		user  string
		actAs []string
		isOwn bool
	}{
		{"app", []string{"Alice"}, true},
		{"app", []string{"Alice", "Alice"}, true}, // the parties are a set
		{"app", nil, true},
		{"", []string{"Alice"}, true},
		{"other", []string{"Alice"}, false},
		{"app", []string{"Alice", "Bob"}, false}, // a different change id
		{"app", []string{"Bob"}, false},
	} {
		assert.Equal(t, c.isOwn, (&completion{UserID: c.user, ActAs: c.actAs}).isOf("app", "Alice"), "%+v", c)
	}
}

func TestSubmissionIDs(t *testing.T) {
	assert.Equal(t, 12, attemptOf("b#1", submissionIDOf("b#1", 12)))
	for _, s := range []string{"", "b", "b#", "b#0", "b#-1", "b#01", "b#+1", "b#1 ", "c#1", "b#1#1", "b#99999999999999999999", "b#x"} {
		assert.Zero(t, attemptOf("b", s), "%q", s)
	}
	assert.LessOrEqual(t, len(submissionIDOf(batch.ID(make([]byte, maxID)), 1<<62)), maxLedgerString)
}

// The client sets its own fields at the top level, whatever the payload says, and leaves the
// payload's fields unchanged.
func TestSubmission(t *testing.T) {
	c, err := New("http://localhost", &Options{UserID: "app", DeduplicationPeriod: 90500 * time.Millisecond})
	assert.NoError(t, err)
	payload := `{"commands":[{"CreateCommand":{"templateId":"#a:B:C","createArguments":{"x":"<&>","n":123456789012345678901234567890.5}}}],"workflowId":"w"}`
	body, err := c.submission(batch.Attempt{Key: batch.Key{Service: "Alice::12", ID: "b/1"}, Number: 3, Payload: []byte(payload)})
	assert.NoError(t, err)
	assert.JSONEq(t, `{"commandId":"b/1","actAs":["Alice::12"],"submissionId":"b/1#3","userId":"app","workflowId":"w",
		"deduplicationPeriod":{"DeduplicationDuration":{"value":{"seconds":90,"nanos":500000000}}},
		"commands":[{"CreateCommand":{"templateId":"#a:B:C","createArguments":{"x":"<&>","n":123456789012345678901234567890.5}}}]}`, string(body))
	assert.Contains(t, string(body), `"n":123456789012345678901234567890.5`, "numbers are as they were written")
	var doc map[string]any
	assert.NoError(t, json.Unmarshal(body, &doc))
}
