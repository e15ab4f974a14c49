package splintertest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

func circuitOfVersion(version int) []splintertest.Circuit {
	return []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}, {ID: "ccccc-ddddd", Version: version}}
}

// Requests that 02-errors.txt does not have get these answers.
func TestSubmitAnswers(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	good := incBatch(t)
	for url, code := range map[string]any{
		n.URL(1) + "/scabbard/aaaaa-bbbbb/a000":  nil, // a service of the other node
		n.URL(0) + "/scabbard//aaaaa-bbbbb/a000": "404",
	} {
		r := sendRequest(t, http.MethodPost, url+"/batches", batchList(good))
		assert.Equal(t, 404, r.status, r.body)
		assert.Equal(t, code, r.decode(t)["code"])
	}
	assert.Equal(t, "/scabbard/aaaaa-bbbbb/a000/batch_statuses?ids="+string(good.ID), postBatches(t, n, s, good).decode(t)["link"])
	assert.Equal(t, "/scabbard/aaaaa-bbbbb/a000/batch_statuses?ids", sendRequest(t, http.MethodPost, serviceURL(n, s)+"/batches", nil).decode(t)["link"])
	other := incBatch(t)
	bad := incBatch(t)
	bad.Payload = []byte(strings.Replace(string(bad.Payload), "inc x 1", "inc x 9", 1))
	require.Equal(t, 400, postBatches(t, n, s, other, bad).status, "all or nothing")
	assert.Equal(t, "Unknown", n.Status(s, other.ID))
}

// A status answer is an array in arbitrary order, and its elements depend on the version.
func TestStatuses(t *testing.T) {
	for name, old := range map[string]bool{"new": false, "old": true} {
		t.Run(name, func(t *testing.T) {
			n := splintertest.Start(t, &splintertest.Options{Before0613: old, DefaultWait: 50 * time.Millisecond})
			s := n.Service(0)
			good, bad := incBatch(t), buildBatch(t, newTransaction(splintertest.Set("y", 1)), newTransaction(splintertest.Invalid("y")))
			postAccepted(t, n, s, good)
			postAccepted(t, n, s, bad)
			waitForStatus(t, n, s, good, "Committed")
			waitForStatus(t, n, s, bad, "Invalid")
			never := strings.Repeat("0", 128)
			get := func(query string) response {
				return sendRequest(t, http.MethodGet, serviceURL(n, s)+"/batch_statuses"+query, nil)
			}
			assert.Equal(t, 400, get("").status)
			var all []map[string]any
			r := get("?ids=" + string(good.ID) + "," + string(bad.ID) + "," + never + "," + never)
			require.NoError(t, json.Unmarshal([]byte(r.body), &all))
			require.Len(t, all, 3, "duplicates collapse")
			by := map[string]map[string]any{}
			for _, e := range all {
				by[e["id"].(string)] = e["status"].(map[string]any)
				assert.Contains(t, e["timestamp"], "secs_since_epoch")
			}
			assert.Equal(t, "Committed", by[string(good.ID)]["statusType"])
			assert.Len(t, by[string(bad.ID)]["message"], 2, "the innocent too")
			assert.Equal(t, "Unknown", by[never]["statusType"])
			_, has := by[never]["message"]
			assert.Equal(t, !old, has)

			begun := time.Now()
			r = get("?wait&ids=" + never)
			assert.GreaterOrEqual(t, time.Since(begun), 50*time.Millisecond, "an Unknown waits the full time")
			assert.Equal(t, map[bool]int{false: 200, true: 408}[old], r.status)
			assert.Equal(t, 200, get("?wait=100&ids="+string(good.ID)).status, "at once")
			assert.Equal(t, 500, get("?wait=18446744073709551615&ids="+never).status)
		})
	}
}

// A service remembers a limited number of batches, forgets first the one that it saw first, and
// forgets all at a restart.
func TestHistory(t *testing.T) {
	n := splintertest.Start(t, &splintertest.Options{
		HistorySize: 3, CommitInterval: time.Millisecond, CoordinatorTimeout: 20 * time.Millisecond,
	})
	s := n.Service(0)
	var batches []batch.Batch
	for i := range 3 {
		batches = append(batches, buildBatch(t, newTransaction(splintertest.Set(fmt.Sprint("h", i), 1))))
		postAccepted(t, n, s, batches[len(batches)-1])
		waitForStatus(t, n, s, batches[len(batches)-1], "Committed")
	}
	postAccepted(t, n, s, batches[0]) // a second POST does not change when it was first seen
	more := incBatch(t)
	postAccepted(t, n, n.Service(1), more) // batches of peers count, too
	waitForStatus(t, n, s, more, "Committed")
	assert.Equal(t, "Unknown", n.Status(s, batches[0].ID))
	assert.Equal(t, "Committed", n.Status(s, batches[1].ID))
	waitForStatus(t, n, n.Service(1), more, "Committed")
	n.Restart(0)
	assert.Equal(t, "Unknown", n.Status(s, more.ID))
	assert.Equal(t, "Committed", n.Status(n.Service(1), more.ID), "another node does not forget")
	assert.EqualValues(t, 1, n.State(s)["x"])
}

// The version decides which service proposes a batch, and what the others know about it.
func TestVersions(t *testing.T) {
	t.Run("v1", func(t *testing.T) {
		n := splintertest.Start(t, &splintertest.Options{Circuits: circuitOfVersion(1), CommitInterval: 400 * time.Millisecond})
		a, b := incBatch(t), incBatch(t)
		postAccepted(t, n, n.Service(0), a)
		waitForStatus(t, n, n.Service(0), a, "Valid")
		postAccepted(t, n, n.Service(1), b) // the second service proposes at the same time
		waitForStatus(t, n, n.Service(0), a, "Committed")
		waitForStatus(t, n, n.Service(1), b, "Valid")
		assert.Equal(t, []string{"Rejected"}, answeredWords(n, b))
		postAccepted(t, n, n.Service(1), b) // a Valid batch, which was rolled back, is sent again, as a client should do
		waitForStatus(t, n, n.Service(1), b, "Committed")
	})
	t.Run("circuits are apart", func(t *testing.T) {
		n := splintertest.Start(t, nil)
		postAccepted(t, n, n.Services()[2], incBatch(t))
		require.Eventually(t, func() bool { return n.State(n.Services()[2])["x"] == 1 }, 30*time.Second, time.Millisecond)
		assert.Empty(t, n.State(n.Service(0)))
	})
}

// A peer whose message to accept batches again is lost refuses them for ever. TestFlood and
// 05-flood.txt show the rest of back pressure.
func TestBackPressure(t *testing.T) {
	n := splintertest.Start(t, &splintertest.Options{CommitInterval: 50 * time.Millisecond, Faults: &splintertest.Faults{LoseResume: true}})
	var many []batch.Batch
	for range 33 {
		many = append(many, incBatch(t))
	}
	one := incBatch(t)
	postAccepted(t, n, n.Service(1), many...) // each POST is tested once, so a list may exceed the limit
	for i := range 2 {
		require.Equal(t, response{status: http.StatusTooManyRequests}, postBatches(t, n, n.Service(i), one))
	}
	require.Eventually(t, func() bool { return n.QueueLen(n.Service(0)) < 15 }, 30*time.Second, time.Millisecond)
	assert.Equal(t, http.StatusAccepted, postBatches(t, n, n.Service(0), one).status)
	assert.Equal(t, http.StatusTooManyRequests, postBatches(t, n, n.Service(1), one).status)
	assert.Less(t, n.QueueLen(n.Service(0)), 30)
}

// A request goes on when its client leaves.
func TestFaults(t *testing.T) {
	var f splintertest.Fault
	var bf splintertest.BatchFault
	n := splintertest.Start(t, &splintertest.Options{Faults: &splintertest.Faults{
		Request: func(splintertest.RequestPoint) splintertest.Fault { return f },
		Batch:   func(batch.ID, int) splintertest.BatchFault { return bf },
	}})
	s := n.Service(0)
	f = splintertest.Fault{Answer: splintertest.AnswerError, Status: 502, Acceptance: splintertest.AcceptedLate, AcceptAfter: 20 * time.Millisecond}
	b := incBatch(t)
	assert.Equal(t, 502, postBatches(t, n, s, b).status)
	assert.Equal(t, "Unknown", n.Status(s, b.ID))
	waitForStatus(t, n, s, b, "Committed")

	f, bf = splintertest.Fault{}, splintertest.BatchFault{Lose: true}
	lost := incBatch(t)
	postAccepted(t, n, s, lost)
	bf = splintertest.BatchFault{Reject: true}
	rejected := incBatch(t)
	postAccepted(t, n, s, rejected)
	waitForStatus(t, n, s, rejected, "Valid")
	bf = splintertest.BatchFault{Evict: true}
	evicted := incBatch(t)
	postAccepted(t, n, s, evicted)
	require.Eventually(t, func() bool { return n.State(s)["x"] == 2 }, 30*time.Second, time.Millisecond)
	for _, x := range []batch.Batch{b, lost, rejected, evicted} {
		assert.Equal(t, "Unknown", n.Status(s, x.ID), "nothing is forgotten out of turn")
	}
	assert.Equal(t, []batch.ID{b.ID, evicted.ID}, n.Executions(s))
	require.NoError(t, n.Check(map[batch.ServiceID][]batch.ID{s: {b.ID, lost.ID, evicted.ID}}))
	require.Error(t, n.Check(map[batch.ServiceID][]batch.ID{s: {evicted.ID, b.ID}}))
	assert.Equal(t, 1, n.Posts(b.ID))
}

// A node that stops and resumes has the same address.
func TestStopAndResume(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	url := n.URL(0)
	n.Stop(0)
	_, err := http.Get(url) //nolint:noctx // nobody answers at the address
	require.Error(t, err)
	require.NoError(t, n.Resume(0))
	assert.Equal(t, url, n.URL(0))
	postAccepted(t, n, s, incBatch(t))
	n.Close()
	n.Close()

	again, err := splintertest.Listen(&splintertest.Options{Addrs: []string{strings.TrimPrefix(url, "http://")}})
	require.NoError(t, err)
	defer again.Close()
	assert.Equal(t, url, again.URL(0), "and so does another process")
	_, err = splintertest.Listen(&splintertest.Options{Circuits: []splintertest.Circuit{{ID: "x"}}})
	require.Error(t, err)
	_, err = splintertest.Listen(&splintertest.Options{Faults: &splintertest.Faults{Hang: 0.6, Busy: 0.6}})
	require.Error(t, err)
}

// A message that rust-protobuf cannot read gets 400 in a list, and 500 in a transaction's header.
func TestUndecodablePosts(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	number := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 7)
	text := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), []byte{0xff})
	list := func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
	}
	for name, row := range map[string]struct {
		body   []byte
		status int
	}{
		"a number for a batch": {number, 400}, "an unknown field": {unknown, 202}, "an id that is no text": {list(text), 400},
		"a number for a header": {list(number), 400}, "an empty batch": {list(nil), 500},
	} {
		assert.Equal(t, row.status, sendRequest(t, http.MethodPost, serviceURL(n, s)+"/batches", row.body).status, name)
	}
}

// The target of a request may have up to 65,534 bytes.
func TestLongQuery(t *testing.T) {
	n := splintertest.Start(t, nil)
	base := serviceURL(n, n.Service(0)) + "/batch_statuses?ids="
	room := 65534 - len(strings.TrimPrefix(base, n.URL(0)))
	assert.Equal(t, 200, sendRequest(t, http.MethodGet, base+strings.Repeat("a", room), nil).status)
	assert.Equal(t, response{status: 400}, sendRequest(t, http.MethodGet, base+strings.Repeat("a", room+1), nil))
	assert.Equal(t, response{status: 400}, sendRequest(t, http.MethodGet, base+strings.Repeat("a", 200_000), nil))
	assert.Equal(t, 404, sendRequest(t, http.MethodGet, serviceURL(n, n.Service(0))+"/state/"+splintertest.Address("x"), nil).status)
}

// The state can be asked for by address, by prefix, and by its root.
func TestState(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	b := buildBatch(t, newTransaction(splintertest.Set("x", 42)), newTransaction(splintertest.Set("y", 7)))
	empty := sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state_root", nil).body
	postAccepted(t, n, s, b)
	waitForStatus(t, n, s, b, "Committed")
	x := sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state/"+splintertest.Address("x"), nil)
	assert.Equal(t, response{status: 200, body: "[52,50]"}, x)
	assert.Equal(t, 500, sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state/xyz", nil).status)
	assert.Equal(t, "Address not set", sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state/"+splintertest.Address("z"), nil).decode(t)["message"])
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state?prefix=1cf126", nil).body), &all))
	assert.Len(t, all, 2)
	require.NoError(t, json.Unmarshal([]byte(sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state?prefix="+splintertest.Address("y"), nil).body), &all))
	assert.Equal(t, []map[string]any{{"address": splintertest.Address("y"), "value": []any{55.0}}}, all)
	assert.NotEqual(t, empty, sendRequest(t, http.MethodGet, serviceURL(n, s)+"/state_root", nil).body)
	assert.Equal(t, "401", sendRequest(t, http.MethodGet, serviceURL(splintertest.Start(t, &splintertest.Options{
		Authorize: func(string, splintertest.Operation) bool { return false },
	}), s)+"/state_root", nil).decode(t)["code"])
}
