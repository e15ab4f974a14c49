package canton

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// errorEnvelope returns an error object with these values.
func errorEnvelope(id string, category, grpc int) envelope {
	return parseEnvelope("application/json", fmt.Appendf(nil,
		`{"code":%q,"cause":"why","context":{"category":"%d","definite_answer":"false"},"errorCategory":%d,"grpcCodeValue":%d}`, id, category, category, grpc))
}

// reportedInCompletion returns the reported status of the same failure in a completion with this
// definite_answer.
func (f participantError) reportedInCompletion(definite string) batch.Reported {
	f.context = map[string]string{"definite_answer": definite}
	if definite == "" {
		f.context = nil
	}
	return f.reportedState()
}

// Each id and category in the tables has one meaning, for the answer to a POST and for a
// completion. Only a refusal is final, and only if it is definite.
func TestWords(t *testing.T) {
	kinds := map[meaning]batch.ErrorKind{
		meansUnclear: batch.KindDoubt, meansDuplicate: "", meansInFlight: batch.KindDoubt, meansTransient: batch.KindBusy,
		meansNotYet: batch.KindNotYet, meansRefused: batch.KindRejected, meansMisconfigured: batch.KindMisconfigured, meansInternal: batch.KindDoubt,
	}
	each := func(name string, e envelope, want meaning) {
		assert.True(t, e.isParticipants, name)
		assert.Equal(t, want, e.meaning(), name)
		assert.Equal(t, kinds[want], kindOf(submitKind(400, e)), name)
		for _, definite := range []string{"", "true", "false", "perhaps"} {
			final := want == meansRefused && (definite == "" || definite == "true")
			assert.Equal(t, final, e.reportedInCompletion(definite) == batch.ReportedInvalid, "%s, definite_answer %q", name, definite)
			assert.Equal(t, want == meansDuplicate, e.reportedInCompletion(definite) == batch.ReportedCommitted, "%s, definite_answer %q", name, definite)
		}
	}
	for id, want := range idMeanings {
		for _, category := range []int{-1, 0, 2, 8, 9, 11, 99} { // the id decides, not the category
			each(id, errorEnvelope(id, category, 3), want)
		}
	}
	for category, want := range categoryMeanings {
		each(fmt.Sprint("category ", category), errorEnvelope("NEVER_HEARD_OF", category, 3), want)
	}
	for grpc, category := range grpcCategories {
		each(fmt.Sprint("gRPC code ", grpc), errorEnvelope("NA", -1, grpc), categoryMeanings[category])
	}
	for status, want := range statusMeanings {
		assert.Equal(t, kinds[want], kindOf(submitKind(status, envelope{})), status)
	}
}

// A failure that is in no table is doubt: never a refusal, never a success, and never the end of a
// batch.
func TestUnknownWordsEndNothing(t *testing.T) {
	for category := -3; category <= 40; category++ {
		if _, known := categoryMeanings[category]; known {
			continue
		}
		for grpc := -2; grpc <= 40; grpc++ {
			if _, known := grpcCategories[grpc]; known && category <= 0 {
				continue
			}
			for _, id := range []string{"", "NA", "NEVER_HEARD_OF", "daml_failure", "DAML_FAILURE ", "DUPLICATE_COMMAND_ID"} {
				e := errorEnvelope(id, category, grpc)
				assert.Equal(t, batch.KindDoubt, kindOf(submitKind(400, e)), "%q, category %d, gRPC code %d", id, category, grpc)
				for _, definite := range []string{"", "true", "false"} {
					assert.Zero(t, e.reportedInCompletion(definite), "%q, category %d, gRPC code %d", id, category, grpc)
				}
			}
		}
	}
	for status := range 1000 {
		for _, e := range []envelope{
			parseEnvelope("text/html", []byte("<h1>no</h1>")), parseEnvelope("text/plain", []byte("no")), parseEnvelope("", nil),
			parseEnvelope("application/json", []byte(`{"code":"DAML_FAILURE"}`)), parseEnvelope("application/json", []byte(`{"code":400,"message":"Bad Request"}`)),
		} {
			kind := kindOf(submitKind(status, e))
			if _, known := statusMeanings[status]; !known && !wire.Refuses(status) && status != 200 {
				assert.Equal(t, batch.KindDoubt, kind, "HTTP %d", status)
			}
			assert.False(t, kind == batch.KindRejected && !(status == 413 && e.isPlainText), "HTTP %d", status)
		}
	}
}

// A missing user is a mistake of the set-up: Options.UserID is "", and the token names no user.
func TestAMissingUserIsTheSetUp(t *testing.T) {
	e := parseEnvelope("application/json", []byte(`{"code":"MISSING_FIELD","context":{"category":"8","field_name":"user_id"},"errorCategory":8,"grpcCodeValue":3}`))
	assert.Equal(t, batch.KindMisconfigured, kindOf(submitKind(400, e)))
	e = parseEnvelope("application/json", []byte(`{"code":"MISSING_FIELD","context":{"category":"8","field_name":"template_id"},"errorCategory":8,"grpcCodeValue":3}`))
	assert.Equal(t, batch.KindRejected, kindOf(submitKind(400, e)))
}

// A failure that is not definite is not final, in whatever form the detail says so.
func TestIndefiniteErrorsInEachForm(t *testing.T) {
	for name, detail := range map[string]string{
		"bytes":            `"value":"` + encodeInfo("INCONSISTENT", map[string]string{"category": "9", "definite_answer": "false"}) + `"`,
		"decoded":          `"value":"","valueDecoded":{"reason":"INCONSISTENT","metadata":{"category":"9","definite_answer":"false"}}`,
		"decoded, no text": `"value":"","valueDecoded":{"reason":"INCONSISTENT","metadata":{"category":9,"definite_answer":false}}`,
	} {
		e, err := parseElement([]byte(`{"completionResponse":{"Completion":{"value":{"commandId":"b","submissionId":"b#1","offset":1,"status":{"code":9,"message":"INCONSISTENT(9,x): no","details":[{"typeUrl":"type.googleapis.com/google.rpc.ErrorInfo",` + detail + `}]}}}}}`))
		if assert.NoError(t, err, name) {
			v := e.completion.verdict()
			assert.Equal(t, batch.ReportedUnknown, v.reported, name)
			assert.False(t, v.hasNoEffect, name)
		}
	}
}

// A status code that gRPC does not have makes no batch final, whatever else the status has.
func TestAnUnknownStatusCodeEndsNothing(t *testing.T) {
	for _, code := range []int{-1, 17, 99} {
		e, err := parseElement(fmt.Appendf(nil, `{"completionResponse":{"Completion":{"value":{"commandId":"b","submissionId":"b#1","offset":1,"status":{"code":%d,"message":"DAML_FAILURE(9,x): no"}}}}}`, code))
		if assert.NoError(t, err) {
			v := e.completion.verdict()
			assert.Zero(t, v.reported, code)
			assert.False(t, v.hasNoEffect, code)
			assert.Contains(t, v.message, "unknown status code")
		}
	}
}

// A list of completions may be longer than the limit of one element, and is still read to its end.
func TestALongListHidesNoCompletion(t *testing.T) {
	const maxAllowed = 16 << 10
	one := `{"completionResponse":{"Completion":{"value":{"commandId":"b","offset":1,"status":{"code":9,"message":"` + strings.Repeat("a", maxAllowed/2) + `"}}}}}`
	n, err := decodeElements(strings.NewReader("["+strings.Repeat(one+",", 50)+`{"completionResponse":{"Empty":{}}}]`), maxAllowed, func(e element) {
		if e.completion != nil {
			assert.Equal(t, "b", e.completion.CommandID)
		}
	})
	assert.NoError(t, err)
	assert.Equal(t, 51, n)
	_, err = decodeElements(strings.NewReader("null"), maxAllowed, nil)
	assert.Error(t, err, "no list")
	_, err = decodeElements(strings.NewReader("["+one), maxAllowed, func(element) {})
	assert.Error(t, err, "cut off")
}
