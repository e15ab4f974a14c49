package cantontest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// rawClient makes requests to a participant without the client.
type rawClient struct {
	t           *testing.T
	participant *cantontest.Participant
	token       string
}

func newRawClient(t *testing.T, o *cantontest.Options) *rawClient {
	t.Helper()
	return &rawClient{t: t, participant: cantontest.Start(t, o)}
}

func (r *rawClient) request(method, path, body string) (int, string, string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.participant.URL()+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	req.Close = true // so that no connection is left open
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

func commandJSON(id, submission, period string, ts ...cantontest.Transfer) string {
	if len(ts) == 0 {
		ts = []cantontest.Transfer{{To: "Bob", Amount: 1}}
	}
	var doc map[string]any
	if err := json.Unmarshal(cantontest.Payload(ts...), &doc); err != nil {
		panic(err)
	}
	doc["commandId"], doc["actAs"], doc["userId"], doc["submissionId"] = id, []string{"Alice"}, "app", submission
	if period != "" {
		doc["deduplicationPeriod"] = json.RawMessage(period)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// submit posts body, and requires the status and an error object with the code; "" means no error.
func (r *rawClient) submit(body string, status int, code string) map[string]any {
	r.t.Helper()
	got, contentType, text := r.request("POST", "/v2/commands/async/submit", body)
	require.Equal(r.t, status, got, "%s", text)
	if code == "" && status == 200 {
		assert.Equal(r.t, "{}", text)
		return nil
	}
	require.Equal(r.t, "application/json", contentType)
	var doc map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(text), &doc))
	assert.Equal(r.t, code, doc["code"], "%s", text)
	return doc
}

// listCompletions asks for completions, and returns their values.
func (r *rawClient) listCompletions(begin int64, query string) []map[string]any {
	r.t.Helper()
	status, _, text := r.request("POST", "/v2/commands/completions?"+query, fmt.Sprintf(`{"userId":"app","parties":["Alice"],"beginExclusive":%d}`, begin))
	require.Equal(r.t, 200, status, "%s", text)
	var list []map[string]map[string]map[string]map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(text), &list))
	var out []map[string]any
	for _, e := range list {
		for kind, body := range e["completionResponse"] {
			v := body["value"]
			v["kind"] = kind
			out = append(out, v)
		}
	}
	return out
}

func TestSubmissionAndCompletion(t *testing.T) {
	r := newRawClient(t, nil)
	end := r.participant.LedgerEnd()
	r.submit(commandJSON("b", "b#1", "", cantontest.Transfer{To: "Bob", Amount: 7}, cantontest.Transfer{To: "Carol", Amount: 2}), 200, "")
	got := r.listCompletions(end, "limit=1&stream_idle_timeout_ms=2000")
	require.Len(t, got, 1)
	assert.Equal(t, "b", got[0]["commandId"])
	assert.Equal(t, "b#1", got[0]["submissionId"])
	assert.EqualValues(t, 0, got[0]["status"].(map[string]any)["code"])
	assert.EqualValues(t, end+1, got[0]["offset"])
	assert.Equal(t, map[string]int64{"Alice": 999_991, "Bob": 1_000_007, "Carol": 1_000_002}, r.participant.Balances())
	assert.Empty(t, r.listCompletions(end+1, "stream_idle_timeout_ms=1"))
	_, _, text := r.request("GET", "/v2/state/ledger-end", "")
	assert.JSONEq(t, fmt.Sprintf(`{"offset":%d}`, end+1), text)
}

func TestAllOrNothing(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{Balance: 10})
	for i, ts := range [][]cantontest.Transfer{
		{{To: "Bob", Amount: 6}, {To: "Carol", Amount: 6}}, // more than the balance
		{{To: "Bob", Amount: 1}, {To: "Carol", Amount: 1, Poison: cantontest.PoisonAsync}},
	} {
		id := fmt.Sprintf("b%d", i)
		r.submit(commandJSON(id, id+"#1", "", ts...), 200, "")
		require.Eventually(t, func() bool { return r.participant.Count(cantontest.Rejected, id) == 1 }, 30*time.Second, time.Millisecond)
	}
	assert.Empty(t, r.participant.Balances())
	got := r.listCompletions(0, "stream_idle_timeout_ms=1")
	require.Len(t, got, 2)
	assert.Contains(t, got[0]["status"].(map[string]any)["message"], "LOCAL_VERDICT_INACTIVE_CONTRACTS(11,")
	assert.Empty(t, got[0]["updateId"])
	assert.EqualValues(t, 9, got[1]["status"].(map[string]any)["code"])
}

func TestAContractIsSpentOnce(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{CompleteAfter: time.Second})
	spend := cantontest.Transfer{To: "Bob", Amount: 1, Spends: "00c"}
	r.submit(commandJSON("a", "a#1", "", spend), 200, "")
	r.submit(commandJSON("b", "b#1", "", spend), 200, "") // both are interpreted before one of them archives the contract
	require.Eventually(t, func() bool { return r.participant.Count(cantontest.Rejected, "b") == 1 }, 30*time.Second, time.Millisecond)
	assert.Equal(t, 1, r.participant.Count(cantontest.Executed, "a"))
	r.submit(commandJSON("a", "a#2", "", spend), 404, "CONTRACT_NOT_FOUND") // not answered as a duplicate
	assert.EqualValues(t, 1_000_001, r.participant.Balance("Bob"))
}

func TestRefusedAtTheDoor(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{MaxBody: 2000, MaxDeduplication: time.Hour})
	for name, c := range map[string]struct {
		body   string
		status int
		text   string
	}{
		"no JSON":       {"{", 400, "Invalid value for: body"},
		"no command id": {`{"actAs":["Alice"],"commands":[{}],"userId":"app"}`, 400, "'commandId'"},
		"no parties":    {`{"commandId":"b","commands":[{}],"userId":"app"}`, 400, "'actAs'"},
		"no commands":   {`{"commandId":"b","actAs":["Alice"],"userId":"app"}`, 400, "'commands'"},
		"too large":     {strings.Repeat(" ", 2001) + "{}", 413, "exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			status, contentType, text := r.request("POST", "/v2/commands/async/submit", c.body)
			assert.Equal(t, c.status, status)
			assert.Contains(t, contentType, "text/plain")
			assert.Contains(t, text, c.text)
		})
	}
	r.submit(strings.Replace(commandJSON("b", "", ""), `"userId":"app"`, `"userId":""`, 1), 400, "MISSING_FIELD")
	r.submit(commandJSON("", "", ""), 400, "MISSING_FIELD")
	r.submit(commandJSON("b", "", "", cantontest.Transfer{To: "Bob", Amount: 1, Poison: cantontest.PoisonSync}), 400, "DAML_FAILURE")
	r.submit(commandJSON("b", "", "", cantontest.Transfer{To: "", Amount: 1}), 400, "DAML_INTERPRETATION_ERROR")
	r.submit(commandJSON("b", "", `{"DeduplicationDuration":{"value":{"seconds":3601,"nanos":0}}}`), 400, "INVALID_DEDUPLICATION_PERIOD")
	assert.Zero(t, r.participant.Count(cantontest.Accepted, "b"))
}

func TestDeduplicationPeriods(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{CompleteAfter: 500 * time.Millisecond})
	n := 0
	again := func(period string, status int, code string) map[string]any {
		n++
		return r.submit(commandJSON("b", fmt.Sprintf("b#%d", n), period), status, code)
	}
	again("", 200, "")
	busy := again("", 409, "SUBMISSION_ALREADY_IN_FLIGHT")
	assert.Equal(t, "1 second", busy["retryInfo"])
	require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b") == 1 }, 30*time.Second, time.Millisecond)
	at := r.participant.LedgerEnd()
	dup := again("", 409, "DUPLICATE_COMMAND")
	assert.Equal(t, fmt.Sprint(at), dup["context"].(map[string]any)["completion_offset"])
	assert.Equal(t, "b#1", dup["context"].(map[string]any)["existing_submission_id"])
	again(`{"DeduplicationDuration":{"value":{"seconds":60,"nanos":0}}}`, 409, "DUPLICATE_COMMAND")
	again(fmt.Sprintf(`{"DeduplicationOffset":{"value":%d}}`, at-1), 409, "DUPLICATE_COMMAND")
	again(`{"Empty":{}}`, 409, "DUPLICATE_COMMAND")
	require.NoError(t, r.participant.Check(nil))
	again(fmt.Sprintf(`{"DeduplicationOffset":{"value":%d}}`, at), 200, "") // the offset itself is not part of the period
	require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b") == 2 }, 30*time.Second, time.Millisecond)
	require.ErrorContains(t, r.participant.Check(nil), "took effect twice")
}

func TestListLimits(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{ListLimit: 5, CompleteAfter: time.Millisecond, ListWait: 10 * time.Millisecond})
	for i := range 8 {
		r.submit(commandJSON(fmt.Sprintf("b%d", i), "", ""), 200, "")
	}
	require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b7") == 1 }, 30*time.Second, time.Millisecond)
	for _, query := range []string{"", "limit=6"} { // no limit, and one above the participant's, which is ignored
		status, _, text := r.request("POST", "/v2/commands/completions?"+query, `{"userId":"app","parties":["Alice"],"beginExclusive":0}`)
		assert.Equal(t, 413, status)
		assert.Contains(t, text, "JSON_API_MAXIMUM_LIST_ELEMENTS_NUMBER_REACHED")
	}
	first := r.listCompletions(0, "limit=5")
	require.Len(t, first, 5)
	rest := r.listCompletions(int64(first[4]["offset"].(float64)), "limit=5")
	require.Len(t, rest, 3)
	assert.Equal(t, "b7", rest[2]["commandId"])
	status, _, text := r.request("POST", "/v2/commands/completions", `{"userId":"app","parties":[],"beginExclusive":0}`)
	assert.Equal(t, 400, status, "%s", text)
	status, _, text = r.request("POST", "/v2/commands/completions", `{"userId":"other","parties":["Alice"],"beginExclusive":0}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, "[]", text, "completions of that user only")
	status, _, text = r.request("POST", "/v2/commands/completions", `{"userId":"app","parties":["Alice"],"beginExclusive":1000}`)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "OFFSET_AFTER_LEDGER_END")
	r.participant.Prune(int64(first[2]["offset"].(float64)))
	status, _, text = r.request("POST", "/v2/commands/completions", `{"userId":"app","parties":["Alice"],"beginExclusive":0}`)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "PARTICIPANT_PRUNED_DATA_ACCESSED")
	_, _, text = r.request("GET", "/v2/state/latest-pruned-offsets", "")
	assert.Contains(t, text, fmt.Sprintf(`"participantPrunedUpToInclusive":%d`, int64(first[2]["offset"].(float64))))
	assert.Len(t, r.listCompletions(int64(first[2]["offset"].(float64)), "limit=5"), 5)
}

func TestRightsOfUsers(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{Users: map[string]cantontest.User{
		"good": {ID: "app", ActAs: []string{"Alice"}}, "late": {ID: "app", ActAs: []string{"Alice"}, TokenExpired: true}, "reader": {ID: "app", ReadAs: []string{"Alice"}},
	}})
	for _, c := range []struct {
		token  string
		status int
		code   string
	}{{"", 401, "NA"}, {"bad", 401, "NA"}, {"late", 401, "NA"}, {"reader", 403, "NA"}, {"good", 200, ""}} {
		r.token = c.token
		doc := r.submit(commandJSON("b", "b#1", ""), c.status, c.code)
		if c.status == 401 {
			assert.Equal(t, map[string]any{"ledger_api_error": "invalid token"}, doc["context"])
		}
	}
	r.token = "reader"
	assert.Len(t, r.listCompletions(0, "limit=1"), 1)
}

// A stream has the completions after its beginning, ignores later requests, and ends with one
// frame for an error.
func TestStream(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{Users: map[string]cantontest.User{"good": {ID: "app", ActAs: []string{"Alice"}}}, IdleCheckpoint: 20 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	open := func(request string) *websocket.Conn {
		conn, resp, err := websocket.Dial(ctx, r.participant.URL()+"/v2/commands/completions", &websocket.DialOptions{
			Subprotocols: []string{"daml.ws.auth", "jwt.token.good"},
		})
		require.NoError(t, err)
		assert.Equal(t, "daml.ws.auth", resp.Header.Get("Sec-WebSocket-Protocol"))
		t.Cleanup(func() { _ = conn.CloseNow() })
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(request)))
		return conn
	}
	conn := open(`{"parties":["Alice"],"beginExclusive":10}`)
	require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(`{"parties":["Bob"],"beginExclusive":0}`)))
	_, frame, err := conn.Read(ctx)
	require.NoError(t, err)
	assert.Contains(t, string(frame), `"OffsetCheckpoint"`, "an idle stream")
	r.token = "good"
	r.submit(commandJSON("b", "b#1", ""), 200, "")
	for !bytes.Contains(frame, []byte(`"Completion"`)) {
		_, frame, err = conn.Read(ctx)
		require.NoError(t, err)
	}
	assert.Contains(t, string(frame), `"commandId":"b"`)

	bad := open(`{"parties":["Carol"],"beginExclusive":0}`)
	_, frame, err = bad.Read(ctx)
	require.NoError(t, err)
	assert.Contains(t, string(frame), `"errorCategory":7`)
	_, _, err = bad.Read(ctx)
	assert.Error(t, err)
}

func TestCheckFindsBreaches(t *testing.T) {
	r := newRawClient(t, &cantontest.Options{CompleteAfter: time.Millisecond})
	for _, id := range []string{"a", "b"} {
		r.submit(commandJSON(id, id+"#1", ""), 200, "")
		require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, id) == 1 }, 30*time.Second, time.Millisecond)
	}
	order := func(ids ...batch.ID) map[batch.ServiceID][]batch.ID {
		return map[batch.ServiceID][]batch.ID{"Alice": ids}
	}
	require.NoError(t, r.participant.Check(order("a", "never", "b")))
	require.ErrorContains(t, r.participant.Check(order("b", "a")), "after")
	require.ErrorContains(t, r.participant.Check(order("a")), "never added")
	r.submit(commandJSON("c", "a#1", ""), 200, "")
	require.ErrorContains(t, r.participant.Check(nil), "taken twice")
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []cantontest.Options{{CompleteAfter: -1}, {ListLimit: -1}, {Balance: -1}, {OffsetStep: -1}} {
		_, err := cantontest.NewParticipant(&o)
		assert.Error(t, err)
	}
}
