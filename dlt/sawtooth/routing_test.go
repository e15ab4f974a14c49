package sawtooth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// answeringNode is one of several nodes. It answers with the status that the test has set for each
// id, and counts the requests.
type answeringNode struct {
	*httptest.Server
	mu         sync.Mutex
	wordByID   map[string]string
	status     int // the HTTP status of both kinds of requests; 0 means the usual one
	postCount  int
	queryCount int
}

func startAnsweringNode(t *testing.T) *answeringNode {
	t.Helper()
	n := &answeringNode{wordByID: make(map[string]string)}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *answeringNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.URL.Path == "/batches" {
		n.postCount++
		_, _ = io.Copy(io.Discard, r.Body)
		if n.status == 0 {
			w.WriteHeader(http.StatusAccepted)
		} else {
			w.WriteHeader(n.status)
		}
		return
	}
	n.queryCount++
	var ids []string
	_ = json.NewDecoder(r.Body).Decode(&ids)
	if n.status != 0 {
		w.WriteHeader(n.status)
		return
	}
	var data []string
	for _, id := range ids {
		word := n.wordByID[id]
		if word == "" {
			word = "UNKNOWN"
		}
		data = append(data, element(batch.ID(id), word))
	}
	_, _ = fmt.Fprintf(w, `{"data": [%s]}`, strings.Join(data, ","))
}

// closeNode closes the node and the client's connections, so that the next request is refused.
func closeNode(c *sawtooth.Client, n *answeringNode) {
	c.CloseIdleConnections()
	n.Close()
}

func (n *answeringNode) setStatus(id batch.ID, word string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wordByID[string(id)] = word
}

func (n *answeringNode) setHTTPStatus(status int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = status
}

func (n *answeringNode) counts() (posted, asked int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	posted, asked = n.postCount, n.queryCount
	n.postCount, n.queryCount = 0, 0
	return posted, asked
}

func submitFirst(c *sawtooth.Client, id batch.ID) error {
	return c.Submit(context.Background(), batch.Attempt{Key: batch.Key{ID: id}, Number: 1, Payload: []byte("hello")})
}

// reportedBy asks about one batch and returns the reported status, 0 if there is none.
func reportedBy(t *testing.T, c *sawtooth.Client, id batch.ID) (batch.Reported, error) {
	t.Helper()
	got, err := c.BatchStatuses(context.Background(), "", attempts(id))
	require.LessOrEqual(t, len(got), 1)
	if len(got) == 0 {
		return 0, err
	}
	assert.Equal(t, id, got[0].ID)
	return got[0].Reported, err
}

func TestStatusesAreAskedWhereTheBatchWasSent(t *testing.T) {
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL}})
	id := testID(1)
	require.NoError(t, submitFirst(c, id))
	a.setStatus(id, "PENDING")
	b.setStatus(id, "COMMITTED") // the client does not ask this node
	r, err := reportedBy(t, c, id)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedPending, r)
	_, asked := b.counts()
	assert.Zero(t, asked)

	a.setStatus(id, "COMMITTED")
	r, err = reportedBy(t, c, id)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedCommitted, r)
	_, asked = b.counts()
	assert.Zero(t, asked)

	// The batch is final, so the client forgot where it was sent, and now asks all nodes.
	_, err = reportedBy(t, c, id)
	require.NoError(t, err)
	_, asked = b.counts()
	assert.Equal(t, 1, asked)
}

func TestDoubtIsRememberedAndRefusalIsNot(t *testing.T) {
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL}})
	for status, everywhere := range map[int]int{503: 0, 429: 1, 404: 1} {
		id := testID(status)
		a.setHTTPStatus(status)
		require.Error(t, submitFirst(c, id))
		a.setHTTPStatus(0)
		_, err := reportedBy(t, c, id)
		require.NoError(t, err)
		_, asked := b.counts()
		assert.Equal(t, everywhere, asked, "%d", status)
	}
	posted, _ := b.counts()
	assert.Zero(t, posted, "only a node that cannot be reached makes the client go on")
}

// A refusal of an unknown kind may be this one node's. When it comes again and again, another node
// gets the batch.
func TestAnEndpointThatLeavesABatchInDoubtIsLeft(t *testing.T) {
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL}})
	a.setHTTPStatus(500)
	for range 3 {
		require.Equal(t, batch.KindDoubt, dlt.Kind(submitFirst(c, testID(1))))
	}
	require.NoError(t, submitFirst(c, testID(1)))
	posted, _ := b.counts()
	assert.Equal(t, 1, posted)
	b.setStatus(testID(1), "COMMITTED")
	r, err := reportedBy(t, c, testID(1))
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedCommitted, r)
}

func TestStrongestAnswerCounts(t *testing.T) {
	words := []string{"UNKNOWN", "PENDING", "INVALID", "COMMITTED"}
	values := []batch.Reported{batch.ReportedUnknown, batch.ReportedPending, batch.ReportedInvalid, batch.ReportedCommitted}
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL}})
	for i := range words {
		for j := range words {
			a.setStatus(testID(1), words[i])
			b.setStatus(testID(1), words[j])
			r, err := reportedBy(t, c, testID(1))
			require.NoError(t, err)
			assert.Equal(t, values[max(i, j)], r, "%s and %s", words[i], words[j])
		}
	}
}

func TestFallbackAfterARefusedConnection(t *testing.T) {
	b := startAnsweringNode(t)
	c := newClient(t, deadURL(t), &sawtooth.Options{Fallbacks: []string{b.URL}})
	require.ErrorIs(t, submitFirst(c, testID(1)), dlt.ErrUnavailable)
	posted, _ := b.counts()
	assert.Zero(t, posted, "the attempt itself is not sent again")
	for range 3 {
		require.NoError(t, submitFirst(c, testID(1)))
	}
	posted, _ = b.counts()
	assert.Equal(t, 3, posted, "and stays there")
}

func TestAContextThatEndedIsNotTheNodesFault(t *testing.T) {
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, c.Submit(ctx, attempt(t)), dlt.ErrUnavailable)
	require.NoError(t, submitFirst(c, testID(1)))
	posted, _ := a.counts()
	assert.Equal(t, 1, posted)
}

func TestAnotherNodeIsUsedWhenThePreferredOneIsGone(t *testing.T) {
	a, b, d := startAnsweringNode(t), startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL, d.URL}})
	id := testID(1)
	require.NoError(t, submitFirst(c, id))
	a.setStatus(id, "PENDING")

	// A node that is slow or fails still exists: it may know more than the others.
	a.setHTTPStatus(503)
	b.setStatus(id, "PENDING")
	r, err := reportedBy(t, c, id)
	assert.Zero(t, r)
	require.ErrorIs(t, err, dlt.ErrDoubt)

	closeNode(c, a)
	d.setStatus(id, "COMMITTED")
	r, err = reportedBy(t, c, id)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedCommitted, r)

	id = testID(2) // no node knows the batch, and all of them answer so
	require.ErrorIs(t, submitFirst(c, id), dlt.ErrUnavailable)
	r, err = reportedBy(t, c, id)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedUnknown, r)

	closeNode(c, b)
	closeNode(c, d)
	r, err = reportedBy(t, c, id)
	assert.Zero(t, r)
	assert.Equal(t, batch.KindUnavailable, dlt.Kind(err))
}

// While a node that may have the batch gives no answer, another node's UNKNOWN does not count, and
// any stronger status does.
func TestUnknownIsHeldBackWhileANodeIsInTrouble(t *testing.T) {
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL}})
	a.setHTTPStatus(503)
	r, err := reportedBy(t, c, testID(1))
	assert.Zero(t, r)
	require.ErrorIs(t, err, dlt.ErrDoubt)
	b.setStatus(testID(1), "PENDING")
	r, err = reportedBy(t, c, testID(1))
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedPending, r)
}

// An answer names the node for submissions if it is that node's own answer, and names no other
// node, because each node has its own memory.
func TestAnswersNameTheNodeThatIsSubmittedTo(t *testing.T) {
	a, b := startAnsweringNode(t), startAnsweringNode(t)
	fallbacks := &sawtooth.Options{Fallbacks: []string{b.URL}}
	endpoint := func(c *sawtooth.Client, id batch.ID) (batch.Reported, string) {
		got, err := c.BatchStatuses(context.Background(), "", attempts(id))
		require.NoError(t, err)
		require.Len(t, got, 1)
		return got[0].Reported, got[0].Endpoint
	}
	id := testID(1)
	c := newClient(t, a.URL, fallbacks)
	for _, x := range []struct {
		a, b string
		want batch.Reported
		name string
	}{
		{"UNKNOWN", "UNKNOWN", batch.ReportedUnknown, a.URL},
		{"PENDING", "UNKNOWN", batch.ReportedPending, a.URL},
		{"PENDING", "PENDING", batch.ReportedPending, a.URL},
		{"UNKNOWN", "PENDING", batch.ReportedPending, ""},
		{"INVALID", "PENDING", batch.ReportedInvalid, ""},
		{"PENDING", "COMMITTED", batch.ReportedCommitted, ""},
	} {
		a.setStatus(id, x.a)
		b.setStatus(id, x.b)
		word, name := endpoint(c, id)
		assert.Equal(t, x.want, word)
		assert.Equal(t, x.name, name, "%s and %s", x.a, x.b)
	}

	a.setStatus(id, "PENDING")
	b.setStatus(id, "PENDING")
	closeNode(c, a) // asked, and not reached; still the node for submissions
	_, name := endpoint(c, id)
	assert.Empty(t, name)
	require.ErrorIs(t, submitFirst(c, id), dlt.ErrUnavailable)
	_, name = endpoint(c, id)
	assert.Equal(t, b.URL, name, "from now on that one is submitted to")

	alone := newClient(t, b.URL, nil)
	_, name = endpoint(alone, id)
	assert.Equal(t, b.URL, name)
	long := newClient(t, b.URL+"/"+strings.Repeat("x", 300)+"/..", nil)
	_, name = endpoint(long, id)
	assert.NotEmpty(t, name)
	assert.LessOrEqual(t, len(name), 200)
}

// Both nodes are asked about a batch that was sent to two nodes.
func TestBothNodesOfABatchSentTwiceAreAsked(t *testing.T) {
	a, b, d := startAnsweringNode(t), startAnsweringNode(t), startAnsweringNode(t)
	c := newClient(t, a.URL, &sawtooth.Options{Fallbacks: []string{b.URL, d.URL}})
	id := testID(1)
	require.NoError(t, submitFirst(c, id))
	closeNode(c, a)
	require.ErrorIs(t, submitFirst(c, id), dlt.ErrUnavailable)
	require.NoError(t, submitFirst(c, id))
	b.setStatus(id, "PENDING")
	r, err := reportedBy(t, c, id)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedPending, r)
	_, asked := d.counts()
	assert.Zero(t, asked)
}

func TestNewRefuses(t *testing.T) {
	for _, url := range []string{
		"", "localhost:8008", "//host", "ftp://host", "http://", "http://:8008", "http:host", "http://host:0", "http://host:99999",
		"http://user:pass@host", "http://user:pass@host:x", "http://host?token=user:pass", "http://host/?", "http://host#user:pass", "http://user:pass@ho st",
	} {
		for _, o := range []struct {
			url       string
			fallbacks []string
			field     string
		}{{url, nil, "url"}, {"http://localhost", []string{"http://localhost:1", url}, "Options.Fallbacks[1]"}} {
			_, err := sawtooth.New(o.url, &sawtooth.Options{Fallbacks: o.fallbacks})
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr, url)
			assert.Equal(t, o.field, inputErr.Field)
			requireNoSecrets(t, err)
		}
	}
	for name, o := range map[string]sawtooth.Options{
		"grace":        {Grace: -1},
		"quiet":        {ResendQuiet: -1},
		"settle":       {Settle: -1},
		"body":         {MaxBody: -1},
		"response":     {MaxResponse: -1},
		"tls":          {Client: &http.Client{}, TLSConfig: tlsConfigFor(startTLS(t), "")},
		"fallbacks":    {Fallbacks: make([]string, 64)},
		"list":         {MaxList: -1},
		"single":       {Fallbacks: []string{"http://localhost:8009"}, SingleValidator: true},
		"expect":       {Header: http.Header{"expect": {"100-continue"}}},
		"content type": {Header: http.Header{"Content-Type": {"application/json"}}},
		"header name":  {Header: http.Header{"X Y": {"1"}}},
		"header value": {Header: http.Header{"Authorization": {secret + "\r\nX: 1"}}},
	} {
		_, err := sawtooth.New("http://localhost:8008", &o)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
		requireNoSecrets(t, err)
	}
}

func startTLS(t *testing.T) *httptest.Server {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s
}

func TestTraits(t *testing.T) {
	c := newClient(t, "http://localhost:8008", nil)
	assert.Equal(t, dlt.Traits{
		Name: "sawtooth", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true, Grace: sawtooth.DefaultGrace, ResendQuiet: sawtooth.DefaultResendQuiet,
		Settle: sawtooth.DefaultSettle, MaxIDsPerQuery: 50, PressureScope: dlt.ScopeEndpoint, Resolves: true, Streams: true, Checks: true,
		MaxList: 100, MaxListBytes: sawtooth.DefaultMaxBody - 601,
	}, c.Traits("s"))
	c = newClient(t, "http://localhost:8008", &sawtooth.Options{Name: "testnet", Grace: 1, ResendQuiet: 2, Settle: 3, Vanish: 4, NoEvents: true, SingleValidator: true, MaxList: 7, MaxBody: 1000})
	assert.Equal(t, dlt.Traits{
		Name: "testnet", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true, Grace: 1, ResendQuiet: 2, Settle: 3, MaxIDsPerQuery: 50, PressureScope: dlt.ScopeEndpoint, Vanish: 4, Resolves: true, KeepsOrder: true, Checks: true,
		MaxList: 7, MaxListBytes: 957,
	}, c.Traits(""))
}

// A user's transport may wrap errors that contain URLs. The client's error does not show them.
func TestURLsOfOthersAreStripped(t *testing.T) {
	own := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		_, err := (&http.Client{Transport: &http.Transport{}}).Get("http://user:pass@127.0.0.1:1/t?key=" + secret)
		return nil, fmt.Errorf("get token: %w", err)
	})}
	c := newClient(t, "http://localhost:8008", &sawtooth.Options{Client: own})
	err := submitFirst(c, testID(1))
	require.Error(t, err)
	requireNoSecrets(t, err)
	assert.NotContains(t, err.Error(), "user:")
	assert.Contains(t, err.Error(), `"http://127.0.0.1:1/t"`)
	assert.NotErrorIs(t, err, dlt.ErrUnavailable, "a wrapper's request is not ours")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
