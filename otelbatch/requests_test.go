package otelbatch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// traceParents returns the traceparents of several callers. The last but one is not sampled, and
// the last is "".
func traceParents() []string {
	return []string{
		"00-4b000000000000000000000000000001-f000000000000001-01", "00-4b000000000000000000000000000002-f000000000000002-01",
		"00-4b000000000000000000000000000003-f000000000000003-00", "",
	}
}

// postLedger is a ledger that records the traceparents in the contexts of its POSTs.
type postLedger struct {
	*ledgermem.Ledger
	mu          sync.Mutex
	sentParents []string
}

func (p *postLedger) note(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sentParents = append(p.sentParents, dlt.TraceParent(ctx))
}

func (p *postLedger) Submit(ctx context.Context, a batch.Attempt) error {
	p.note(ctx)
	return p.Ledger.Submit(ctx, a)
}

func (p *postLedger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	p.note(ctx)
	return p.Ledger.SubmitList(ctx, list)
}

// postList posts four batches with the four contexts in one request. It returns the traceparents
// that were sent, and the spans of the request.
func postList(t *testing.T, request func(*Traces) func(context.Context, []string) (context.Context, func(error))) (sent []string, requests []recordedSpan) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.MaxList = 4
		ledger := &postLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: time.Second, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Latency: time.Second}
		}})}
		made := &spanRecorder{}
		traces, err := NewTraces(made)
		require.NoError(t, err)
		r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{
			Strategy: queuer.Pipelined(4), Observers: []batch.Observer{traces}, TraceRequest: request(traces),
		})
		require.NoError(t, err)
		var batches []batch.Batch
		for i, parent := range traceParents() {
			b := newBatch("a-lane", batch.ID(fmt.Sprint("an-id", i)))
			b.Payload, b.DataChangeID, b.TraceParent = []byte("a payload"), fmt.Sprint("a key", i), parent
			batches = append(batches, b)
		}
		require.NoError(t, r.Add(t.Context(), batches...))
		stop := startRun(t, r)
		require.NoError(t, r.Idle(t.Context()))
		stop()
		sent = ledger.sentParents
		attempts := 0
		for _, s := range made.all {
			switch s.name {
			case spanRequest:
				requests = append(requests, s)
			case spanAttempt:
				attempts++
			}
			for key, value := range s.attrs {
				for _, secret := range []string{"a-lane", "an-id", "a payload", "a key"} {
					assert.NotContains(t, value, secret, "%s: %s", s.name, key)
				}
			}
		}
		assert.Equal(t, 2, attempts, "of the sampled batches")
	})
	return sent, requests
}

// A request with several batches has a span of its own, with a link to each sampled batch.
func TestSpanOfAList(t *testing.T) {
	sent, requests := postList(t, func(t *Traces) func(context.Context, []string) (context.Context, func(error)) { return t.Request })
	assert.Equal(t, []string{""}, sent, "the ledger is a foreign party")
	require.Len(t, requests, 1)
	of := requests[0]
	assert.Equal(t, sampledContext(traceParents()[0]), of.parent)
	var links []trace.SpanContext
	for _, l := range of.links {
		links = append(links, l.SpanContext)
	}
	assert.Equal(t, []trace.SpanContext{sampledContext(traceParents()[0]), sampledContext(traceParents()[1])}, links)
	assert.Equal(t, trace.SpanKindClient, of.kind)
	assert.Equal(t, codes.Unset, of.status)
	assert.Equal(t, map[attribute.Key]string{"dltbatch.request.batches": "4"}, of.attrs)
}

// With SendRequest the ledger gets the context of the request's own span.
func TestAListSendsTheContextOfItsRequest(t *testing.T) {
	sent, requests := postList(t, func(t *Traces) func(context.Context, []string) (context.Context, func(error)) { return t.SendRequest })
	require.Len(t, requests, 1)
	require.Len(t, sent, 1)
	assert.Equal(t, TraceParent(trace.ContextWithSpanContext(t.Context(), requests[0].context)), sent[0])
	assert.NotContains(t, traceParents(), sent[0])
}

// A request of one batch sends that batch's context, sampled or not, and makes no span of its own.
func TestOneBatchSendsItsOwnContext(t *testing.T) {
	made := &spanRecorder{}
	traces, err := NewTraces(made)
	require.NoError(t, err)
	for _, parent := range traceParents() {
		ctx, end := traces.SendRequest(t.Context(), []string{parent})
		assert.Equal(t, parent, dlt.TraceParent(ctx))
		assert.Nil(t, end)
		ctx, end = traces.Request(t.Context(), []string{parent})
		assert.Empty(t, dlt.TraceParent(ctx))
		assert.Nil(t, end)
	}
	assert.Empty(t, made.all)
}

// If no batch of a list was sampled, no span is made and no context is sent.
func TestAListThatNobodySampled(t *testing.T) {
	made := &spanRecorder{}
	traces, err := NewTraces(made)
	require.NoError(t, err)
	ctx, end := traces.SendRequest(t.Context(), traceParents()[2:])
	assert.Empty(t, dlt.TraceParent(ctx))
	assert.Nil(t, end)
	assert.Empty(t, made.all)
}

// The span of a failed request has the kind of the failure, and not the ledger's text.
func TestSpanOfAListThatFails(t *testing.T) {
	made := &spanRecorder{}
	traces, err := NewTraces(made)
	require.NoError(t, err)
	_, end := traces.Request(t.Context(), traceParents())
	end(&dlt.Error{Op: "submit", Kind: dlt.ErrBusy, Message: "a secret"})
	require.Len(t, made.all, 1)
	assert.Equal(t, codes.Error, made.all[0].status)
	assert.Equal(t, string(batch.KindBusy), made.all[0].statusText)
}

// A ledger's client sends the header traceparent if the application asks for that, and only with
// the POST.
func TestTheHeaderOnTheWire(t *testing.T) {
	for name, asked := range map[string]bool{"asked for": true, "not asked for": false} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			got := map[string]map[string]bool{}
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if got[r.URL.Path] == nil {
					got[r.URL.Path] = map[string]bool{}
				}
				got[r.URL.Path][r.Header.Get("Traceparent")] = true
				if r.URL.Path == "/batches" {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(node.Close)
			ledger, err := sawtooth.New(node.URL, nil)
			require.NoError(t, err)
			t.Cleanup(ledger.CloseIdleConnections)
			traces, err := NewTraces(&spanRecorder{})
			require.NoError(t, err)
			o := &dltbatch.Options{TraceRequest: traces.Request}
			want := ""
			if asked {
				o.TraceRequest, want = traces.SendRequest, traceParents()[0]
			}
			r, err := dltbatch.New(memory.New(), ledger, o)
			require.NoError(t, err)
			key, err := sawtooth.GeneratePrivateKey()
			require.NoError(t, err)
			b, err := sawtooth.Build(key, "", sawtooth.Transaction{FamilyName: "intkey", FamilyVersion: "1.0", Payload: []byte("p")})
			require.NoError(t, err)
			b.TraceParent = traceParents()[0]
			require.NoError(t, r.Add(t.Context(), b))
			stop := startRun(t, r)
			defer stop()
			require.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(got) >= 2
			}, time.Minute, time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			for path, parents := range got {
				if path == "/batches" {
					assert.Equal(t, map[string]bool{want: true}, parents)
				} else {
					assert.Equal(t, map[string]bool{"": true}, parents, path)
				}
			}
		})
	}
}

// A context that is not a valid traceparent is never sent, because Add has dropped it.
func TestNoBadContextIsSent(t *testing.T) {
	traces, err := NewTraces(&spanRecorder{})
	require.NoError(t, err)
	for _, bad := range []string{"x", strings.Repeat("0", 8<<10), "a\r\nheader: b"} {
		ctx, _ := traces.SendRequest(t.Context(), []string{bad})
		assert.Empty(t, dlt.TraceParent(ctx))
	}
}
