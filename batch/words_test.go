package batch_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// wordValue is a value that is written as a word.
type wordValue interface {
	encoding.TextMarshaler
	fmt.Stringer
}

// wordType is one type of such values, with its words.
type wordType struct {
	name  string
	value func(n uint8) wordValue
	parse func(text []byte) (wordValue, error)
	words []string // the words of the values, in order; "" if the zero value has none
}

func wordTypeOf[T ~uint8, P interface {
	*T
	encoding.TextUnmarshaler
}](name string, as func(T) wordValue, words ...string) wordType {
	return wordType{
		name: name, words: words,
		value: func(n uint8) wordValue { return as(T(n)) },
		parse: func(text []byte) (wordValue, error) {
			v := T(200) // an unreadable word leaves the value unchanged
			err := P(&v).UnmarshalText(text)
			return as(v), err
		},
	}
}

func wordTypes() []wordType {
	return []wordType{
		wordTypeOf[batch.State]("State", func(v batch.State) wordValue { return v },
			"", "queued", "submitting", "pending", "valid", "delayed", "unknown", "committed", "invalid", "rejected"),
		wordTypeOf[batch.Policy]("Policy", func(v batch.Policy) wordValue { return v }, "default", "continue", "halt", "quarantine"),
		wordTypeOf[batch.Actor]("Actor", func(v batch.Actor) wordValue { return v }, "nobody", "queuer", "submitter", "monitor", "operator"),
		wordTypeOf[batch.Reported]("Reported", func(v batch.Reported) wordValue { return v },
			"", "unknown", "pending", "valid", "invalid", "committed", "failed", "stalled", "void"),
	}
}

// All valid values become text and JSON and are read back, and no others are.
func TestWords(t *testing.T) {
	for _, w := range wordTypes() {
		for n := range 256 {
			v := w.value(uint8(n))
			text, err := v.MarshalText()
			if n >= len(w.words) {
				var inputErr *batch.InputError
				require.ErrorAs(t, err, &inputErr, "%s %d", w.name, n)
				assert.Equal(t, w.name, inputErr.Field)
				assert.Equal(t, v.String(), inputErr.Value)
				assert.Contains(t, inputErr.Want, w.words[1])
				_, err = json.Marshal(v)
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, w.words[n], string(text))
			if w.words[n] != "" {
				assert.Equal(t, v.String(), string(text), "one word for one thing")
			}
			back, err := w.parse(text)
			require.NoError(t, err)
			assert.Equal(t, v, back)
			inJSON, err := json.Marshal(v)
			require.NoError(t, err)
			assert.JSONEq(t, fmt.Sprintf("%q", w.words[n]), string(inJSON))
		}
		for _, other := range []string{"Queued", "queued ", "0", "1", "state(77)", "none", "\x00"} {
			v, err := w.parse([]byte(other))
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr, "%s %q", w.name, other)
			assert.Equal(t, w.name, inputErr.Field)
			assert.Equal(t, batch.Excerpt(other, 64), inputErr.Value)
			assert.Equal(t, w.value(200), v, "it stays as it was")
		}
	}
	var v struct{ State batch.State }
	require.Error(t, json.Unmarshal([]byte(`{"State": 3}`), &v), "no numbers")
}

// A word that was read is written again unchanged.
func FuzzWords(f *testing.F) {
	for _, w := range wordTypes() {
		for _, text := range w.words {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("policy(4)"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, w := range wordTypes() {
			v, err := w.parse(text)
			if err != nil {
				require.ErrorIs(t, err, batch.ErrInvalidInput)
				continue
			}
			back, err := v.MarshalText()
			require.NoError(t, err)
			require.Equal(t, string(text), string(back))
		}
	})
}

// checkJSON compares a value's JSON with want, and reads the same value back.
func checkJSON[T any](t *testing.T, v T, want string) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	assert.JSONEq(t, want, string(text))
	var decoded T
	require.NoError(t, json.Unmarshal(text, &decoded))
	assert.Equal(t, v, decoded)
}

// A ruling is one of three words, and the name of a state is not a ruling.
func TestRulings(t *testing.T) {
	require.Len(t, batch.Rulings(), 3)
	for _, r := range batch.Rulings() {
		require.NoError(t, r.Validate())
		require.NotEmpty(t, r.Statement())
		require.True(t, batch.Allowed(batch.Submitting, r.State(), batch.ByOperator), r)
	}
	for _, word := range []batch.Ruling{"", "unknown", "rejected", "Committed"} {
		require.ErrorIs(t, word.Validate(), batch.ErrInvalidInput)
		require.Zero(t, word.State())
		require.Empty(t, word.Statement())
	}
}

// A record, an explanation and a control embed a key or a scope, and print more than that.
func TestPrinting(t *testing.T) {
	key := batch.Key{Service: "c::s", ID: "b1"}
	assert.Equal(t, "c::s/b1: pending", fmt.Sprint(batch.Record{Key: key, State: batch.Pending}))
	assert.Equal(t, "c::s/b1: it waits", fmt.Sprint(batch.Explanation{Key: key, Text: "it waits"}))
	assert.Equal(t, "everything", fmt.Sprint(batch.Control{Scope: batch.Everything()}))
	assert.Equal(t, `service "s": paused, halted by b1, policy halt`, fmt.Sprint(batch.Control{
		Scope: batch.Only("s"), PausedAt: time.Unix(1, 0), HaltedAt: time.Unix(1, 0), HaltedBy: "b1", Policy: batch.PolicyHalt,
	}))
}

// TestRecordsInJSON has the JSON that an HTTP handler or a log shows to people.
func TestRecordsInJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	key := batch.Key{Service: "c::s", ID: "b1"}
	checkJSON(t, batch.Record{Key: key, State: batch.Queued, Version: 1, CreatedAt: at},
		`{"service": "c::s", "id": "b1", "state": "queued", "version": 1, "attempt": 0, "spent": 0, "created_at": "2030-01-02T03:04:05.000006Z"}`)
	checkJSON(t, batch.Record{
		Key: key, State: batch.Submitting, Version: 4, Attempt: 2, Spent: 1, Budget: batch.Budget{Attempts: 3, EveryTry: true},
		DataChangeID: "d", CreatedAt: at, FinalAt: at, ClaimExpires: at, NotBefore: at, LastPost: at, SettlesAt: at, DoubtSince: at, ResendUntil: at,
		Error: &batch.SubmissionError{Kind: batch.KindDoubt, Message: "reset"}, Decision: "no evidence",
		Receipts: []batch.Receipt{{TransactionID: "t", Message: "no funds", Data: []byte("x")}}, ClaimedBy: "one", Quarantined: true,
	}, `{"service": "c::s", "id": "b1", "state": "submitting", "version": 4, "attempt": 2, "spent": 1, "budget": {"attempts": 3, "every_try": true},
		"data_change_id": "d", "created_at": "2030-01-02T03:04:05.000006Z", "final_at": "2030-01-02T03:04:05.000006Z",
		"claim_expires": "2030-01-02T03:04:05.000006Z", "not_before": "2030-01-02T03:04:05.000006Z", "last_post": "2030-01-02T03:04:05.000006Z",
		"settles_at": "2030-01-02T03:04:05.000006Z", "doubt_since": "2030-01-02T03:04:05.000006Z", "resend_until": "2030-01-02T03:04:05.000006Z",
		"error": {"kind": "doubt", "message": "reset"}, "decision": "no evidence",
		"receipts": [{"transaction_id": "t", "valid": false, "message": "no funds", "data": "eA=="}], "claimed_by": "one", "quarantined": true}`)
	checkJSON(t, batch.Act{
		By: batch.By{Actor: "ann", Reason: "ticket 17"}, Action: batch.ActionDecide, At: at, Scope: batch.Only("c::s"), Batch: "b1",
		From: batch.Submitting, To: batch.Unknown,
	}, `{"actor": "ann", "reason": "ticket 17", "action": "decide", "at": "2030-01-02T03:04:05.000006Z",
		"scope": {"all": false, "service": "c::s"}, "batch": "b1", "from": "submitting", "to": "unknown"}`)
	checkJSON(t, batch.Act{By: batch.By{Actor: "ann"}, Action: batch.ActionSetPolicy, At: at, Scope: batch.Only(""), Policy: batch.PolicyHalt},
		`{"actor": "ann", "action": "set_policy", "at": "2030-01-02T03:04:05.000006Z", "scope": {"all": false, "service": ""}, "policy": "halt"}`)
	paused := batch.Control{
		Scope: batch.Everything(), PausedAt: at, PausedBy: batch.By{Actor: "bob", Reason: "upgrade"}, Version: 7,
	}
	checkJSON(t, paused, `{"all": true, "service": "", "paused_at": "2030-01-02T03:04:05.000006Z", "paused_by": {"actor": "bob", "reason": "upgrade"},
		"policy": "default", "version": 7}`)
	checkJSON(t, batch.MovedOnError{Seen: 3, Control: paused}, `{"seen": 3, "control": {"all": true, "service": "",
		"paused_at": "2030-01-02T03:04:05.000006Z", "paused_by": {"actor": "bob", "reason": "upgrade"}, "policy": "default", "version": 7}}`)
	checkJSON(t, batch.Explanation{Key: key, Version: 4, At: at, State: batch.Delayed, Owner: batch.ByQueuer, Cause: batch.CauseDelayed, Attempts: 1,
		Next: time.Second, Remedy: batch.RemedyWait, Text: "delayed"},
		`{"service": "c::s", "id": "b1", "version": 4, "at": "2030-01-02T03:04:05.000006Z", "state": "delayed", "owner": "queuer", "cause": "delayed",
		"attempts": 1, "next_ns": 1000000000, "remedy": "wait", "text": "delayed"}`)
	checkJSON(t, batch.Report{Attempt: 1, At: at, Kind: batch.KindBusy, StatusCode: 429, Took: time.Second},
		`{"attempt": 1, "at": "2030-01-02T03:04:05.000006Z", "kind": "busy", "status_code": 429, "took_ns": 1000000000}`)
}

// The error of an event may be any error, and is its text in JSON.
func TestEventsInJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	key := batch.Key{Service: "s", ID: "b1"}
	checkJSON(t, batch.Event{Kind: batch.EventClaimed, Key: key, State: batch.Submitting, Attempt: 1, At: at},
		`{"kind": "claimed", "key": {"service": "s", "id": "b1"}, "state": "submitting", "attempt": 1, "at": "2030-01-02T03:04:05Z"}`)
	checkJSON(t, batch.Event{Kind: batch.EventTrouble, At: at, Err: errors.New("scan: connection refused")},
		`{"kind": "trouble", "at": "2030-01-02T03:04:05Z", "error": "scan: connection refused"}`)
	checkJSON(t, batch.Event{
		Kind: batch.EventFinal, Key: key, State: batch.Rejected, Attempt: 2, At: at, Instance: "here", SinceAdded: 3, SincePosted: 4,
		Took: 5, InRequest: 6, StatusCode: 400, Code: 30, Endpoint: "http://node",
	}, `{"kind": "final", "key": {"service": "s", "id": "b1"}, "state": "rejected", "attempt": 2, "at": "2030-01-02T03:04:05Z", "instance": "here",
		"since_added_ns": 3, "since_posted_ns": 4, "took_ns": 5, "in_request": 6, "status_code": 400, "code": 30, "endpoint": "http://node"}`)
	text, err := json.Marshal(batch.Event{
		Kind: batch.EventOperated, Key: key, State: batch.Rejected, At: at, Err: &batch.SubmissionError{Kind: batch.KindCancelled, Message: "why"},
		Act: batch.Act{By: batch.By{Actor: "ann"}, Action: batch.ActionCancel, At: at, Scope: batch.Only("s"), From: batch.Queued, To: batch.Rejected},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"kind": "operated", "key": {"service": "s", "id": "b1"}, "state": "rejected", "at": "2030-01-02T03:04:05Z",
		"error": "cancelled: why", "act": {"actor": "ann", "action": "cancel", "at": "2030-01-02T03:04:05Z",
		"scope": {"all": false, "service": "s"}, "from": "queued", "to": "rejected"}}`, string(text))
	e := batch.Event{Err: errors.New("from before")}
	require.NoError(t, json.Unmarshal([]byte(`{"kind": "final", "state": "committed"}`), &e))
	require.NoError(t, e.Err)
	var inputErr *batch.InputError
	require.ErrorAs(t, json.Unmarshal([]byte(`{"state": "lost"}`), &e), &inputErr)
	assert.Equal(t, "State", inputErr.Field)
	assert.Equal(t, "lost", inputErr.Value)
	lanes, err := json.Marshal(map[batch.State]int{batch.Pending: 2})
	require.NoError(t, err)
	assert.JSONEq(t, `{"pending": 2}`, string(lanes))
}
