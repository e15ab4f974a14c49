package canton_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// startEvents opens a stream and waits until it is live.
func (r *testClient) startEvents(s batch.ServiceID) (events chan dlt.Event, ended chan error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	events, ended = make(chan dlt.Event, 100), make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		ended <- r.client.Events(ctx, []batch.ServiceID{s}, func(e dlt.Event) error { events <- e; return nil })
	})
	r.t.Cleanup(func() { cancel(); wg.Wait() })
	select {
	case e := <-events:
		require.Equal(r.t, dlt.Event{Service: s, Live: true}, e)
	case err := <-ended:
		require.Fail(r.t, "it ended", "%v", err)
	}
	return events, ended
}

func receiveSoon[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-time.After(5 * time.Second):
		require.Fail(t, "nothing came")
		panic("unreachable")
	}
}

func TestEventsReportTheEndOfABatch(t *testing.T) {
	r := newTestClient(t, &cantontest.Options{CheckpointEvery: 1, IdleCheckpoint: 5 * time.Millisecond}, nil)
	old := transfer("old")
	require.NoError(t, r.submit(attempt(old, 1, nil)))
	r.waitForExecution("old")
	events, _ := r.startEvents("Alice")
	r.participant.SetFault(func(p cantontest.RequestPoint) cantontest.Fault {
		return map[string]cantontest.Fault{
			"failed": {Reject: "SEQUENCER_BACKPRESSURE"}, "unclear": {Reject: "REQUEST_TIME_OUT"}, "internal": {Reject: "LEDGER_API_INTERNAL_ERROR"},
		}[p.CommandID]
	})
	say := func(s ...batch.Status) dlt.Event { return dlt.Event{Service: "Alice", Statuses: s} }
	for _, c := range []struct {
		b    batch.Batch
		want dlt.Event
	}{
		{transfer("committed"), say(batch.Status{ID: "committed", Reported: batch.ReportedCommitted, Attempt: 7})},
		{transfer("failed"), say(batch.Status{ID: "failed", Reported: batch.ReportedFailed, Attempt: 7, Message: "SEQUENCER_BACKPRESSURE: injected"})},
		{
			transfer("invalid", cantontest.Transfer{To: "Bob", Amount: 1, Poison: cantontest.PoisonAsync}),
			say(batch.Status{ID: "invalid", Reported: batch.ReportedInvalid, Attempt: 7, Message: "INCONSISTENT: Inconsistent: the transfer was poisoned"}),
		},
		{transfer("unclear"), say()},
		{transfer("internal"), say()},
	} {
		require.NoError(t, r.submit(attempt(c.b, 7, nil)))
		assert.Equal(t, c.want, receiveSoon(t, events), "the next event, of %s", c.b.ID)
	}
}

// Events have no commands of others with the same user and party.
func TestEventsOfOthersAreNotReported(t *testing.T) {
	r := newTestClient(t, nil, nil)
	events, _ := r.startEvents("Alice")
	other := r.newClient(&canton.Options{UserID: "other"})
	require.NoError(t, other.Submit(t.Context(), attempt(transfer("others"), 1, nil)))
	var mine map[string]any // the same user and party, but not an attempt of the client
	require.NoError(t, json.Unmarshal(cantontest.Payload(cantontest.Transfer{To: "Bob", Amount: 1}), &mine))
	mine["commandId"], mine["submissionId"], mine["userId"], mine["actAs"] = "by hand", "by hand", "app", []string{"Alice"}
	body, err := json.Marshal(mine)
	require.NoError(t, err)
	resp, err := http.Post(r.participant.URL()+"/v2/commands/async/submit", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	r.waitForExecution("by hand")
	carol := transfer("carols")
	carol.Service = "Carol"
	require.NoError(t, r.submit(attempt(carol, 1, nil)))
	r.waitForExecution("carols")
	require.NoError(t, r.submit(attempt(transfer("mine"), 1, nil)))
	assert.Equal(t, batch.ID("mine"), receiveSoon(t, events).Statuses[0].ID)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The application's HTTP client also opens the stream, because its proxy and its certificates are
// needed for that, too.
func TestEventsComeThroughTheClientOfTheOptions(t *testing.T) {
	r := newTestClient(t, nil, nil)
	var openCount atomic.Int64
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = r.newClient(&canton.Options{Client: &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Upgrade") == "websocket" {
			openCount.Add(1)
		}
		return transport.RoundTrip(req)
	})}})
	r.startEvents("Alice")
	assert.EqualValues(t, 1, openCount.Load())
}

func TestEventsEnd(t *testing.T) {
	t.Run("silence", func(t *testing.T) {
		r := newTestClient(t, nil, &canton.Options{StreamSilence: 100 * time.Millisecond})
		_, ended := r.startEvents("Alice")
		assert.ErrorContains(t, receiveSoon(t, ended), "no frame for 100ms")
	})
	t.Run("checkpoints are signs of life", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{IdleCheckpoint: 30 * time.Millisecond}, &canton.Options{StreamSilence: 300 * time.Millisecond})
		_, ended := r.startEvents("Alice")
		select {
		case err := <-ended:
			assert.Fail(t, "it ended", "%v", err)
		case <-time.After(700 * time.Millisecond):
		}
	})
	t.Run("the participant goes", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		_, ended := r.startEvents("Alice")
		r.participant.Stop()
		assert.Error(t, receiveSoon(t, ended))
		r.client.CloseIdleConnections() // else the request may use a connection that is being closed
		err := r.client.Events(t.Context(), []batch.ServiceID{"Alice"}, func(dlt.Event) error { return nil })
		assert.Equal(t, batch.KindUnavailable, dlt.Kind(err))
	})
	for name, c := range map[string]struct {
		fault cantontest.Fault
		want  batch.ErrorKind
	}{
		"refused in the first frame": {cantontest.Fault{Answer: cantontest.AnswerError, Error: "PERMISSION_DENIED"}, batch.KindMisconfigured},
		"too many streams":           {cantontest.Fault{Answer: cantontest.AnswerError, Error: "MAXIMUM_NUMBER_OF_STREAMS"}, batch.KindBusy},
		"no upgrade":                 {cantontest.Fault{Answer: cantontest.AnswerPage, Status: 403}, batch.KindMisconfigured},
		"a plain 503":                {cantontest.Fault{Answer: cantontest.AnswerTimeout}, batch.KindDoubt},
		"a redirect":                 {cantontest.Fault{Answer: cantontest.AnswerPage, Status: 302}, batch.KindMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestClient(t, nil, nil)
			r.participant.SetFault(func(p cantontest.RequestPoint) cantontest.Fault {
				if p.Operation == cantontest.OpStream {
					return c.fault
				}
				return cantontest.Fault{}
			})
			var told []dlt.Event
			err := r.client.Events(t.Context(), []batch.ServiceID{"Alice"}, func(e dlt.Event) error { told = append(told, e); return nil })
			assert.Equal(t, c.want, dlt.Kind(err), "%v", err)
			assert.Empty(t, told, "a stream that was refused never was live")
		})
	}
	t.Run("several services", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		for _, services := range [][]batch.ServiceID{nil, {"Alice", "Carol"}} {
			assert.Equal(t, batch.KindMisconfigured, dlt.Kind(r.client.Events(t.Context(), services, func(dlt.Event) error { return nil })))
		}
	})
	t.Run("a token without the right", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{Users: map[string]cantontest.User{"token": {ID: "app", ReadAs: []string{"Alice"}}}},
			&canton.Options{Token: func(context.Context) (string, error) { return "token", nil }})
		r.startEvents("Alice")
		err := r.client.Events(t.Context(), []batch.ServiceID{"Carol"}, func(dlt.Event) error { return nil })
		assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	})
}

func TestPollOnlyHasNoStreams(t *testing.T) {
	r := newTestClient(t, nil, &canton.Options{PollOnly: true})
	assert.False(t, r.client.Traits("Alice").Streams)
}
