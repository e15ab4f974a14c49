package cantontest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// participantProxy stands in front of a participant. It counts the requests, and does what a proxy
// may do and a participant never does: it redirects, or changes an answer.
type participantProxy struct {
	*dlttest.Server
	participant *cantontest.Participant
	lastBatch   atomic.Int64
}

func startConformance(t dlttest.TB, prepares bool) *dlttest.Harness {
	d := &participantProxy{}
	var err error
	d.participant, err = cantontest.NewParticipant(&cantontest.Options{CompleteAfter: 3 * time.Millisecond, Fault: d.drawFault})
	require.NoError(t, err)
	t.Cleanup(d.participant.Close)
	d.Server = dlttest.NewServer(t, 1, d)
	client, err := canton.New(d.URLs()[0], &canton.Options{
		UserID: "app", IdleWait: 15 * time.Millisecond,
		LateArrival: 50 * time.Millisecond, DecidedWithin: 250 * time.Millisecond,
	})
	require.NoError(t, err)
	d.CloseIdle = client.CloseIdleConnections
	t.Cleanup(client.CloseIdleConnections)
	h := &dlttest.Harness{
		Ledger: client, Batch: d.batch, Set: d.set, Posts: d.Posts, RetryAfter: time.Second,
		Lacks: map[dlttest.Fault]string{
			dlttest.NotYet:        "no answer of it says of one batch that it cannot be now",
			dlttest.QuerySize:     "a query names a party and an offset, and no ids",
			dlttest.StatusMissing: "a list of completions is not a list of answers: what is missing in it was not completed",
		},
	}
	if prepares {
		h.Ledger = &preparingClient{Client: client}
	}
	return h
}

// preparingClient does the engine's work: it calls Prepare before the first POST, keeps the
// result, and passes it to each later call.
type preparingClient struct {
	*canton.Client
	mu            sync.Mutex
	preparedByKey map[batch.Key][]byte
}

func (p *preparingClient) preparedOf(k batch.Key) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.preparedByKey[k])
}

func (p *preparingClient) Submit(ctx context.Context, a batch.Attempt) error {
	if a.Prepared = p.preparedOf(a.Key); a.Prepared == nil {
		b, err := p.Prepare(ctx, a)
		if err != nil {
			return err
		}
		p.mu.Lock()
		if p.preparedByKey == nil {
			p.preparedByKey = map[batch.Key][]byte{}
		}
		p.preparedByKey[a.Key], a.Prepared = b, b
		p.mu.Unlock()
	}
	return p.Client.Submit(ctx, a)
}

func (p *preparingClient) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Prepared = p.preparedOf(attempts[i].Key)
	}
	return p.Client.BatchStatuses(ctx, s, attempts)
}

func (p *preparingClient) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	d.Prepared = p.preparedOf(d.Key)
	return p.Client.Resolve(ctx, d)
}

func (d *participantProxy) set(f dlttest.Fault) {
	if f == dlttest.StreamCut {
		d.participant.DropStreams()
	}
	d.Set(f)
}

func (d *participantProxy) batch(s batch.ServiceID, content string) batch.Batch {
	t := cantontest.Transfer{To: "Bob", Amount: 1, Note: content}
	switch d.Fault() {
	case dlttest.Decided:
		t.Poison = cantontest.PoisonAsync
	case dlttest.Refused:
		t.Poison = cantontest.PoisonSync
	}
	id := batch.ID(fmt.Sprintf("batch-%d", d.lastBatch.Add(1)))
	return batch.Batch{ID: id, Service: s, Payload: cantontest.Payload(t)}
}

// drawFault makes the faults that the participant can make by itself.
func (d *participantProxy) drawFault(p cantontest.RequestPoint) cantontest.Fault {
	submits := map[dlttest.Fault]cantontest.Fault{
		dlttest.Busy:          {Answer: cantontest.AnswerError, Error: "PARTICIPANT_BACKPRESSURE"},
		dlttest.Misconfigured: {Answer: cantontest.AnswerError, Error: "PERMISSION_DENIED"},
		dlttest.UnknownAnswer: {Answer: cantontest.AnswerPage, Status: 418},
		dlttest.LostRequest:   {Answer: cantontest.AnswerClosed},
		dlttest.LostReply:     {Answer: cantontest.AnswerReset, Accept: true},
		dlttest.Hang:          {Answer: cantontest.AnswerNever, Accept: true},
	}
	queries := map[dlttest.Fault]cantontest.Fault{
		dlttest.StatusLost:    {Answer: cantontest.AnswerReset},
		dlttest.StatusHang:    {Answer: cantontest.AnswerNever},
		dlttest.StatusGarbage: {Answer: cantontest.AnswerPage},
	}
	switch p.Operation {
	case cantontest.OpSubmit:
		return submits[d.Fault()]
	case cantontest.OpCompletions:
		return queries[d.Fault()]
	}
	return cantontest.Fault{}
}

func (d *participantProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	elsewhere := r.URL.Path == "/elsewhere"
	if elsewhere {
		r.URL.Path = "/v2/commands/async/submit"
	}
	switch r.URL.Path {
	case "/v2/commands/async/submit":
		var doc struct {
			CommandID batch.ID `json:"commandId"`
		}
		_ = json.Unmarshal(body, &doc) // the participant answers to a body that is malformed
		d.Posted(doc.CommandID)
		if d.Fault() == dlttest.Redirect && !elsewhere {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
	case "/v2/commands/completions":
		d.forwardQuery(w, r)
		return
	}
	d.participant.ServeHTTP(w, r)
}

func (d *participantProxy) forwardQuery(w http.ResponseWriter, r *http.Request) {
	value := func(e any) map[string]any {
		return e.(map[string]any)["completionResponse"].(map[string]any)["Completion"].(map[string]any)["value"].(map[string]any)
	}
	bend, bent := map[dlttest.Fault]func([]any) []any{
		dlttest.StatusUnknownWord: func(l []any) []any { value(l[0])["status"].(map[string]any)["code"] = 77; return l },
		dlttest.StatusShuffled:    func(l []any) []any { slices.Reverse(l); return l },
		dlttest.StatusStranger: func(l []any) []any {
			other := map[string]any{"completionResponse": map[string]any{"Completion": map[string]any{"value": map[string]any{
				"commandId": "stranger", "submissionId": "stranger#1", "offset": value(l[0])["offset"], "status": map[string]any{"code": 0},
			}}}}
			return append(l, other)
		},
	}[d.Fault()]
	if !bent {
		d.participant.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	d.participant.ServeHTTP(answer, r)
	var list []any
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil || answer.Code != http.StatusOK {
		http.Error(w, fmt.Sprintf("cannot bend: %d %v", answer.Code, err), http.StatusInternalServerError)
		return
	}
	if len(list) > 0 {
		list = bend(list)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the client may have ended the connection
}

// TestConformance runs the suite of dlttest on the client of package canton.
func TestConformance(t *testing.T) {
	for name, prepares := range map[string]bool{"prepared": true, "looking back": false} {
		t.Run(name, func(t *testing.T) {
			if !prepares {
				tier.Plain(t) // starts the same goroutines as the other
			}
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return startConformance(t, prepares) })
		})
	}
}
