package sawtoothtest

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

func listBody(t testing.TB, bs ...*pb.Batch) io.Reader {
	t.Helper()
	return bytes.NewReader(marshal(t, &pb.BatchList{Batches: bs}))
}

// Stop refuses connections and forgets nothing. Resume listens at the same address again.
func TestStopAndResume(t *testing.T) {
	n := Start(t, fastOptions(Options{BlockInterval: 30 * time.Millisecond}))
	url := n.URL()
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	submitOK(t, n, b)
	n.Stop()
	n.Stop()
	_, err := postList(t, n, b)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Eventually(t, func() bool { return n.Status(batchID(b)) == Committed }, 30*time.Second, time.Millisecond)
	require.NoError(t, n.Resume())
	require.NoError(t, n.Resume())
	assert.Equal(t, url, n.URL())
	assert.Equal(t, Committed, askStatus(t, n, b))
}

func TestFixedAddress(t *testing.T) {
	first, err := Listen(nil)
	require.NoError(t, err)
	addr := strings.TrimPrefix(first.URL(), "http://")
	_, err = Listen(&Options{Addr: addr})
	require.Error(t, err, "the port is taken")
	first.Close()
	second := Start(t, &Options{Addr: addr})
	assert.Equal(t, first.URL(), second.URL())
	assert.Equal(t, http.StatusOK, sendRequest(t, http.MethodGet, second.URL()+"/status", "", nil).status)
}

// A restart closes open connections, and no batch of a request that began before the restart is
// accepted after it.
func TestRestartCutsConnections(t *testing.T) {
	n := Start(t, fastOptions(Options{Faults: faultOnFirstPost(Fault{Delay: time.Hour})}))
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	left := make(chan error, 1)
	go func() {
		_, err := postList(t, n, b)
		left <- err
	}()
	require.Eventually(t, func() bool { return countEntries(n, PostStart, b) == 1 }, 30*time.Second, time.Millisecond)
	n.Restart()
	select {
	case err := <-left:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the connection was not cut")
	}
	require.Eventually(t, func() bool { return countEntries(n, PostEnd, b) == 1 }, 30*time.Second, time.Millisecond)
	assert.Zero(t, countEntries(n, Accepted, b))
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
}

// Without a connection to close, the handler itself notices the restart.
func TestRestartEndsWhatBeganBefore(t *testing.T) {
	runInBubble(t, Options{Faults: faultOnFirstPost(Fault{Delay: time.Second})}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		req := httptest.NewRequest(http.MethodPost, "/batches", listBody(t, b))
		req.Header.Set("Content-Type", "application/octet-stream")
		aborted := make(chan any, 1)
		go func() {
			defer func() { aborted <- recover() }()
			n.ServeHTTP(httptest.NewRecorder(), req)
		}()
		synctest.Wait()
		n.Restart()
		assert.Equal(t, http.ErrAbortHandler, <-aborted)
		time.Sleep(5 * time.Second)
		assert.Zero(t, countEntries(n, Accepted, b))
	})
}

// A request that waits during a restart gets no answer.
func TestRestartEndsWaits(t *testing.T) {
	runInBubble(t, Options{BlockInterval: time.Hour}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(30 * time.Minute)
		req := httptest.NewRequest(http.MethodGet, "/batch_statuses?wait=200&id="+b.GetHeaderSignature(), nil)
		aborted := make(chan any, 1)
		go func() {
			defer func() { aborted <- recover() }()
			n.ServeHTTP(httptest.NewRecorder(), req)
		}()
		synctest.Wait()
		began := time.Now()
		n.Restart()
		assert.Equal(t, http.ErrAbortHandler, <-aborted)
		assert.Zero(t, time.Since(began))
	})
}

// A status answer with the same status as the last one is not noted in the journal again.
func TestARepeatedStatusIsNotedOnce(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		requireStatus(t, n, b, Unknown)
		requireStatus(t, n, b, Unknown)
		submitInBubble(t, n, b)
		time.Sleep(2 * time.Second)
		requireStatus(t, n, b, Committed)
		requireStatus(t, n, b, Committed)
		var words []string
		for _, e := range n.Journal() {
			if e.Kind == StatusAnswered {
				words = append(words, e.Word)
			}
		}
		assert.Equal(t, []string{Unknown, Committed}, words)
	})
}

// A hook that ends its goroutine does not leave the node locked.
func TestHookMayPanic(t *testing.T) {
	n := NewNode(fastOptions(Options{Faults: &Faults{Request: func(RequestPoint) Fault { panic("hook") }}}))
	t.Cleanup(n.Close)
	assert.Empty(t, n.URL(), "it never listened")
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	assert.PanicsWithValue(t, "hook", func() {
		n.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/batches/"+b.GetHeaderSignature(), nil))
	})
	assert.Equal(t, Unknown, n.Status(batchID(b)))
}

type failingTB struct {
	cleanups    []func()
	fatalFormat string
}

func (*failingTB) Helper()                          {}
func (f *failingTB) Cleanup(c func())               { f.cleanups = append(f.cleanups, c) }
func (f *failingTB) Fatalf(format string, _ ...any) { f.fatalFormat = format }

func TestStartFails(t *testing.T) {
	f := &failingTB{}
	assert.Nil(t, Start(f, &Options{ParkTime: -1}))
	assert.NotEmpty(t, f.fatalFormat)
	assert.Empty(t, f.cleanups)
}

// JSON is written in ASCII, as Python writes it.
func TestJSONIsIndentedASCII(t *testing.T) {
	assert.Equal(t, "{\n  \"a\": \"<\\u00e9\\ud83d\\ude00>\",\n  \"b\": []\n}", string(encodeJSON(map[string]any{"b": []any{}, "a": "<é😀>"}))) //nolint:testifylint // its bytes, not its meaning
}

// Every code has a row in the code table, with the status of docs/ledgers/sawtooth.md#error-codes.
func TestEachCodeHasAStatus(t *testing.T) {
	for code, status := range map[int]int{
		10: 500, 15: 503, 17: 503, 18: 503, 19: 408, 20: 500, 30: 400, 31: 429, 34: 400, 35: 400, 42: 400, 43: 400, 46: 400,
		60: 400, 62: 400, 66: 400, 70: 404, 71: 404, 72: 404, 75: 404, 80: 404, 81: 400, 82: 400, 83: 400,
	} {
		assert.Equal(t, status, codeAnswer(code).status, code)
		assert.NotContains(t, string(codeAnswer(code).body), "Unknown\"", code)
	}
	assert.Equal(t, http.StatusInternalServerError, codeAnswer(99).status)
}

// While the node is stopped, a client in the bubble is refused, too.
func TestInMemoryStop(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		n.Stop()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/status", nil)
		require.NoError(t, err)
		_, err = n.Client().Do(req)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, n.Resume())
		time.Sleep(2 * time.Second)
		requireStatus(t, n, b, Committed)
	})
}

// Lookups that 11-lookups.txt does not have work, too
// (docs/ledgers/sawtooth.md#receipts-and-lookups).
func TestLookups(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	b := makeBatch(t, intkeyTx(Set("x", 1)), intkeyTx(Inc("x", 6)))
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
	get := func(path string) response { return sendRequest(t, http.MethodGet, n.URL()+path, "", nil) }
	one, two, none := txID(b, 0), txID(b, 1), strings.Repeat("ab", 64)

	assert.Equal(t, base64.StdEncoding.EncodeToString([]byte("\xa3dVerbcsetdNameaxeValue\x01")), get("/transactions/" + one).json["data"].(map[string]any)["payload"])
	r := get("/state/" + Address("x"))
	assert.Equal(t, "oWF4Bw==", r.json["data"])
	assert.Contains(t, r.json["link"], "?head="+r.json["head"].(string))
	r = get("/blocks")
	newest, genesis := r.json["data"].([]any)[0].(map[string]any), r.json["data"].([]any)[1].(map[string]any)
	assert.Equal(t, genesis["header_signature"], newest["header"].(map[string]any)["previous_block_id"])
	assert.Equal(t, "0000000000000000", genesis["header"].(map[string]any)["previous_block_id"])
	assert.Equal(t, newest["header_signature"], r.json["head"])
	data := get("/receipts?id=" + two + "," + one).json["data"].([]any)
	assert.Equal(t, two, data[0].(map[string]any)["id"])
	assert.Equal(t, one, data[1].(map[string]any)["id"])
	assert.Equal(t, []any{map[string]any{"address": Address("x"), "type": "SET", "value": "oWF4Bw=="}}, data[0].(map[string]any)["state_changes"])

	for _, c := range []struct {
		method, path, contentType, body string
		code, status                    int
	}{
		{"GET", "/transactions/x", "", "", 60, 400},
		{"GET", "/state/1cf126", "", "", 62, 400},
		{"GET", "/batches", "", "", 0, 405},
		{"GET", "/batches/", "", "", 0, 404},
		{"GET", "/receipts?id=" + one + "," + none, "", "", 80, 404},
		{"GET", "/receipts", "", "", 83, 400},
		{"GET", "/receipts?id=x", "", "", 60, 400},
		{"GET", "/receipts?id=" + one + "&wait=1", "", "", 0, 500},
		{"POST", "/receipts", "text/json", `["` + one + `"]`, 81, 400},
		{"POST", "/receipts", "application/json", `{}`, 82, 400},
	} {
		r := sendRequest(t, c.method, n.URL()+c.path, c.contentType, []byte(c.body))
		assert.Equal(t, c.code, r.code(), c)
		assert.Equal(t, c.status, r.status, c)
	}
}
