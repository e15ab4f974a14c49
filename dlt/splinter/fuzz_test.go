package splinter

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

var fuzzIDs = []batch.ID{batch.ID(strings.Repeat("a", 128)), batch.ID(strings.Repeat("b", 128))}

// FuzzStatuses shows that for any answer there is at most one status for each id that was asked
// about, with a known word, and that an answer which is no JSON is an error.
func FuzzStatuses(f *testing.F) {
	a := strings.Repeat("a", 128)
	for _, s := range []string{
		"", "[]", "{}", "[[]]", "[1]", "[null]", `[{"id":"` + a + `"}]`,
		`[{"id":"` + a + `","status":{"statusType":"Unknown"},"timestamp":{"secs_since_epoch":1,"nanos_since_epoch":2}}]`,
		`[{"id":"` + a + `","status":{"statusType":"Invalid","message":[{"transaction_id":"t","error_message":"no","error_data":[0,1,256]}]}}]`,
		`[{"id":"` + a + `","status":{"statusType":"Committed","message":"x"}},{"id":"` + a + `","status":{"statusType":"Pending"}}]`,
		`[{"id":"` + a + `","status":{"statusType":"Valid"},"timestamp":{"secs_since_epoch":-1,"nanos_since_epoch":99999999999}}`,
		`[{"id":"` + a + `","status":7}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeStatuses(bytes.NewReader(b), 1<<20, fuzzIDs)
		seen := map[batch.ID]bool{}
		for _, s := range got {
			require.Contains(t, fuzzIDs, s.ID)
			require.False(t, seen[s.ID], "two answers about one batch")
			seen[s.ID] = true
			require.True(t, s.Reported >= batch.ReportedUnknown && s.Reported <= batch.ReportedCommitted)
			require.True(t, utf8.ValidString(s.Message))
			require.LessOrEqual(t, len(s.Message), maxText)
			for _, r := range s.Receipts {
				require.True(t, utf8.ValidString(r.Message) && utf8.ValidString(r.TransactionID))
				require.False(t, r.Valid)
			}
		}
		if err != nil {
			return
		}
		// Without an error, the answer is an array, and there is a status for each of its elements
		// that was asked about.
		var all []struct {
			ID string `json:"id"`
		}
		d := json.NewDecoder(bytes.NewReader(b))
		require.NoError(t, d.Decode(&all))
		for _, e := range all {
			if id := batch.ID(e.ID); id == fuzzIDs[0] || id == fuzzIDs[1] {
				require.True(t, seen[id], "%s was answered", id)
			}
		}
	})
}

// FuzzEvent shows that a frame which is read as an event has an id, and that no probe is read as
// an event.
func FuzzEvent(f *testing.F) {
	p := newProber(1)
	text, _ := p.nextProbe(p.dueAt, false)
	for _, s := range []string{
		"", "{}", "null", `{"id":null}`, `{"id":""}`, `{"id":7}`, text,
		`{"id":"` + strings.Repeat("a", 128) + `","state_changes":[{"Set":{"key":"k","value":[1]}},{"Delete":{"key":"k"}}]}`,
	} {
		f.Add([]byte(s))
	}
	_, err := parseEvent([]byte(text))
	if err == nil {
		f.Fatal("a probe is taken for an event")
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := parseEvent(b)
		require.Equal(t, err == nil, id != "")
		if err == nil {
			require.True(t, json.Valid(b))
		}
	})
}

// FuzzEnvelope shows that no body makes an answer certain that is doubt by its status.
func FuzzEnvelope(f *testing.F) {
	for _, s := range []string{
		"", "{", `{"code":"400","message":"m"}`, `{"code":400}`, `{"code":"x"}`, `{"message":"m"}`, "<html>", `["code"]`, `{"code":"99999999999999999999"}`,
	} {
		f.Add("application/json", []byte(s))
		f.Add("text/html; charset=\"", []byte(s))
	}
	f.Fuzz(func(t *testing.T, contentType string, b []byte) {
		e := parseEnvelope(contentType, b)
		if e.isNodeForm {
			require.Contains(t, string(b), `"`)
		}
		for _, status := range []int{200, 408, 418, 500, 502, 503, 504} {
			v := classify(status, e, nil, nil, time.Time{})
			require.Equal(t, dlt.ErrDoubt, v.Kind, "HTTP %d", status)
		}
		require.NoError(t, classify(202, e, nil, nil, time.Time{}).Kind)
	})
}

// FuzzTransactionIDs reads any payloads, because payloads are read before they are checked.
func FuzzTransactionIDs(f *testing.F) {
	f.Add([]byte{0x1a, 0x02, 0x12, 0x00})
	f.Add(append([]byte{0x1a, 0x83, 0x01, 0x12, 0x80, 0x01}, bytes.Repeat([]byte("a"), 128)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, id := range transactionIDs(b) {
			require.True(t, isID(id))
			require.True(t, bytes.Contains(b, []byte(id)))
		}
	})
}
