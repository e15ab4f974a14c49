package canton

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
)

// encodeInfo returns an ErrorInfo in base64.
func encodeInfo(reason string, metadata map[string]string) string {
	field := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	b := field(nil, 1, reason)
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), field(field(nil, 1, k), 2, metadata[k]))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// For any payload there is either an input error, or a submission with the client's own fields.
func FuzzSubmission(f *testing.F) {
	f.Add("b", "Alice", []byte(goodCommands))
	f.Add("b#1", "Alice::12", withField(`"workflowId":"w","commands":[]`))
	f.Add("", "", []byte("{"))
	f.Add("b", "a", []byte(`{"commands":[{"CreateCommand":{"templateId":1,"createArguments":1}}],"commandId":"x"}`))
	c, err := New("http://localhost", &Options{UserID: "app"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, party string, payload []byte) {
		b := batch.Batch{ID: batch.ID(id), Service: batch.ServiceID(party), Payload: payload}
		check := c.Check(b)
		body, err := c.submission(batch.Attempt{Key: b.Key(), Number: 2, Payload: payload})
		var inputErr *batch.InputError
		if check != nil && (!errors.As(check, &inputErr) || len(check.Error()) > 1024) {
			t.Fatalf("not an InputError, or unbounded: %v", check)
		}
		if err != nil {
			if check == nil || !errors.As(err, &inputErr) {
				t.Fatalf("Check passes what cannot be sent: %v", err)
			}
			return
		}
		var doc struct {
			CommandID    string   `json:"commandId"`
			SubmissionID string   `json:"submissionId"`
			UserID       string   `json:"userId"`
			ActAs        []string `json:"actAs"`
			Commands     []any    `json:"commands"`
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.CommandID != id || attemptOf(id, doc.SubmissionID) != 2 || doc.UserID != "app" || len(doc.ActAs) != 1 || doc.ActAs[0] != party || len(doc.Commands) == 0 {
			t.Fatalf("%s", body)
		}
	})
}

func FuzzCompletions(f *testing.F) {
	for _, s := range []string{
		`[]`, `[{"completionResponse":{"Empty":{}}}]`, `[{"completionResponse":{"OffsetCheckpoint":{"value":{"offset":20}}}}]`,
		`[{"completionResponse":{"Completion":{"value":{"commandId":"b","submissionId":"b#1","offset":18,"userId":"app","actAs":["Alice"],"status":{"code":0}}}}}]`,
		`[{"completionResponse":{"Completion":{"value":{"commandId":"b","submissionId":"b#2","offset":18,"status":{"code":6,"message":"DUPLICATE_COMMAND(10,x): y","details":[{"typeUrl":"` +
			errorInfoURL + `","value":"` + encodeInfo("DUPLICATE_COMMAND", map[string]string{"category": "10"}) + `"}]}}}}}]`,
		`[{"code":"X","errorCategory":2}]`, `[[[`, `{`, `[null,1,"`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q := &batchQuestion{key: batch.Key{Service: "Alice", ID: "b"}, number: 1}
		s := completionScan{client: &Client{userID: "app"}, party: "Alice", questions: map[string]*batchQuestion{"b": q}}
		seen := 0
		n, err := decodeElements(bytes.NewReader(body), 4096, func(e element) {
			seen++
			s.recordElement(e)
			if e.offset < 0 || (e.completion != nil && e.offset == 0) {
				t.Fatalf("an offset of %d", e.offset)
			}
		})
		if seen > n || (err == nil && seen != n) {
			t.Fatalf("%d of %d elements, and %v", seen, n, err)
		}
		if len(q.lastFailure.message) > maxText || q.lastFailure.reported == batch.ReportedCommitted || q.attempt < 0 {
			t.Fatalf("%+v", q)
		}
	})
}

func FuzzErrorInfo(f *testing.F) {
	b, _ := base64.StdEncoding.DecodeString(encodeInfo("X", map[string]string{"category": "2"}))
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{0x08, 0x01, 0x1a, 0x00})
	f.Add([]byte{0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := parseErrorInfo(b)
		if err == nil && len(b) > 0 && info.Metadata == nil {
			t.Fatal("no metadata")
		}
		if len(info.Reason) > len(b) {
			t.Fatal("more than there was")
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add(409, "application/json", []byte(`{"code":"DUPLICATE_COMMAND","errorCategory":10,"grpcCodeValue":6,"retryInfo":"1 second","context":{"category":"10"}}`))
	f.Add(400, "text/plain", []byte("Invalid value for: body"))
	f.Add(503, "", []byte("{"))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		e := parseEnvelope(contentType, body)
		accepted := submitKind(status, e) == nil
		if accepted && status != 200 && e.id != "DUPLICATE_COMMAND" {
			t.Fatalf("%d is accepted: %+v", status, e)
		}
		if !e.isParticipants && status/100 == 5 && kindOf(submitKind(status, e)) != batch.KindDoubt {
			t.Fatalf("%d is certain", status)
		}
		if readKind(status, e) == nil {
			t.Fatal("no error is no kind")
		}
	})
}

func FuzzScalaDuration(f *testing.F) {
	for _, s := range []string{"1 second", "500 milliseconds", "-1 day", "99999999999 days", "", "1  second", "١ second"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := parseScalaDuration(s); d < 0 || d > time.Hour {
			t.Fatalf("%q is %s", s, d)
		}
	})
}

func FuzzPrepared(f *testing.F) {
	f.Add([]byte(`{"offset":17}`))
	f.Add([]byte(`{"offset":1e3}`))
	f.Add([]byte(`{"offset":null,"v":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if offset, err := parsePrepared(b); offset < 0 || (err != nil && offset != 0) {
			t.Fatalf("%d, %v", offset, err)
		}
	})
}

func FuzzAttemptOf(f *testing.F) {
	f.Add("b", "b#1")
	f.Add("b#1", "b#1#22")
	f.Fuzz(func(t *testing.T, command, submission string) {
		if n := attemptOf(command, submission); n != 0 && submissionIDOf(batch.ID(command), n) != submission {
			t.Fatalf("%q of %q is %d", submission, command, n)
		}
	})
}
