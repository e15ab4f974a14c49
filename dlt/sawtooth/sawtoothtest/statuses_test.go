package sawtoothtest

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

func askWait(t testing.TB, n *Node, b *pb.Batch, wait string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/batch_statuses?id="+b.GetHeaderSignature()+wait, nil)
	require.NoError(t, err)
	return requestInBubble(t, n, req)
}

// Each value of "wait" means this duration (docs/ledgers/sawtooth.md#asking-for-statuses). Blocks
// come every hour, so a wait ends only when its time is over.
func TestDurationOfWait(t *testing.T) {
	for _, c := range []struct {
		wait string
		want time.Duration
		code int
	}{
		{"", 0, 0},
		{"&wait=false", 0, 0},
		{"&wait=False", 0, 0},
		{"&wait=7", 7 * time.Second, 0},
		{"&wait", 285 * time.Second, 0},
		{"&wait=true", 285 * time.Second, 0},
		{"&wait=-1", 285 * time.Second, 0},
		{"&wait=4294967296", 285 * time.Second, 0},
		{"&wait=1.5", 285 * time.Second, 0},
		{"&wait=0", 300 * time.Second, 17},
		{"&wait=300", 300 * time.Second, 17},
		{"&wait=299", 299 * time.Second, 0},
	} {
		t.Run(c.wait, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := Start(t, &Options{InMemory: true, BlockInterval: time.Hour, PublishDelay: -1})
				b := makeBatch(t, intkeyTx(Set("x", 1)))
				submitInBubble(t, n, b)
				began := time.Now()
				r := askWait(t, n, b, c.wait)
				assert.Equal(t, c.want, time.Since(began))
				assert.Equal(t, c.code, r.code())
				if c.code == 0 {
					assert.Equal(t, http.StatusOK, r.status)
					assert.Contains(t, r.body, Pending)
				}
			})
		})
	}
}

// A wait ends as soon as no batch is PENDING; an UNKNOWN batch is not waited for
// (docs/ledgers/sawtooth.md#asking-for-statuses).
func TestWaitEndsWhenNothingIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Start(t, &Options{InMemory: true, BlockInterval: 10 * time.Second, PublishDelay: time.Second})
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		began := time.Now()
		assert.Contains(t, askWait(t, n, b, "&wait=100").body, Unknown)
		assert.Zero(t, time.Since(began), "UNKNOWN right after the 202 is answered at once")
		time.Sleep(time.Second)
		assert.Contains(t, askWait(t, n, b, "&wait=100").body, Committed)
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

// Five waits stall all clients of the validator; /status has its own threads
// (docs/ledgers/sawtooth.md#asking-for-statuses). When the REST API gives up on a request, the
// request's thread is not free, and the request is still executed
// (docs/ledgers/sawtooth.md#submitting, 503/17).
func TestFiveWaitsStallAllClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Start(t, &Options{InMemory: true, BlockInterval: time.Hour, PublishDelay: -1, RESTTimeout: 20 * time.Second})
		b, late := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("y", 1)))
		submitInBubble(t, n, b)
		for range 5 {
			go func() { assert.Equal(t, 17, askWait(t, n, b, "&wait=60").code()) }()
		}
		synctest.Wait()
		began := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/status", nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, requestInBubble(t, n, req).status)
		assert.Zero(t, time.Since(began))

		assert.Equal(t, 17, postInBubble(t, n, late).code())
		assert.Equal(t, 20*time.Second, time.Since(began))
		assert.Zero(t, countEntries(n, Accepted, late))
		assert.Contains(t, askWait(t, n, late, "").body, `"code": 17`, "the threads are still held")
		assert.Equal(t, 40*time.Second, time.Since(began))
		assert.Contains(t, askWait(t, n, late, "").body, Pending, "60 s after they began the waits end")
		assert.Equal(t, 60*time.Second, time.Since(began))
		assert.Equal(t, 1, countEntries(n, Accepted, late))
	})
}

// Wrong queries that 11-statusq.txt does not have get the documented errors, too
// (docs/ledgers/sawtooth.md#asking-for-statuses).
func TestWrongStatusQueries(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	good := strings.Repeat("ab", 64)
	const js = "application/json"
	for _, c := range []struct {
		name, method, query, body string
		status, code              int
	}{
		{"id short", "GET", "?id=" + good[1:], "", 400, 60},
		{"trailing comma", "GET", "?id=" + good + ",", "", 400, 60},
		{"escaped comma", "GET", "?id=" + good + "%2C" + good, "", 200, 0},
		{"only the first id is read", "GET", "?id=" + good + "&id=x", "", 200, 0},
		{"post empty", "POST", "", ``, 500, 0},
		{"post null", "POST", "", `null`, 400, 46},
	} {
		r := sendRequest(t, c.method, n.URL()+"/batch_statuses"+c.query, js, []byte(c.body))
		assert.Equal(t, c.status, r.status, c.name)
		assert.Equal(t, c.code, r.code(), c.name)
		if c.status == 200 {
			assert.Equal(t, good, r.json["data"].([]any)[0].(map[string]any)["id"], c.name)
		}
	}
}
