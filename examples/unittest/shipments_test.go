package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// world is the service with a queue and a ledger in memory.
type world struct {
	*Shipments
	ledger *ledger.Ledger
	store  *memory.Store
	runner *dltbatch.Runner
}

// start runs the service until the test ends. Call it in a bubble of testing/synctest: its clock
// jumps ahead whenever all goroutines wait.
func start(t *testing.T, o ledger.Options) *world {
	o.Latency, o.CommitAfter = 50*time.Millisecond, 2*time.Second
	w := &world{ledger: ledger.New(&o), store: memory.New()}
	var err error
	w.runner, err = dltbatch.New(w.store, w.ledger, nil)
	require.NoError(t, err)
	w.Shipments = NewShipments(w.runner)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.runner.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return w
}

func call(t *testing.T, h http.Handler, method, path, body string) (int, Answer) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	var a Answer
	if rec.Code == http.StatusOK {
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &a))
	}
	return rec.Code, a
}

const tea = `{"carrier": "sea", "id": "s-1", "goods": "tea"}`

// book posts the shipment of tea.
func book(t *testing.T, h http.Handler) {
	code, _ := call(t, h, "POST", "/shipments", tea)
	require.Equal(t, http.StatusAccepted, code)
}

func ask(t *testing.T, h http.Handler) Answer {
	code, a := call(t, h, "GET", "/shipments/sea/s-1", "")
	require.Equal(t, http.StatusOK, code)
	return a
}

// final waits until the ledger has decided about the shipment of tea.
func (w *world) final(t *testing.T) batch.Record {
	rec, err := w.runner.Await(t.Context(), batch.Key{Service: "sea", ID: "s-1"})
	require.NoError(t, err)
	return rec
}

func TestConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, ledger.Options{})
		book(t, w)
		assert.Equal(t, "waiting", ask(t, w).State)
		w.final(t)
		assert.Equal(t, Answer{State: "confirmed"}, ask(t, w))
		assert.Equal(t, []batch.ID{"s-1"}, w.ledger.Log("sea"))
	})
}

// TestLedgerDown shows that shipments are accepted while the ledger is down for an hour, and are
// delivered within seconds once it is back.
func TestLedgerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		w := start(t, ledger.Options{Fault: func(batch.Attempt) ledger.Fault {
			if time.Since(begin) < time.Hour {
				return ledger.Fault{Kind: ledger.Unavailable}
			}
			return ledger.Fault{}
		}})
		book(t, w)
		time.Sleep(59 * time.Minute) // of the bubble's time
		assert.Equal(t, "waiting", ask(t, w).State)
		pauses := w.runner.Health().Pauses
		if assert.Len(t, pauses, 1, "a readiness probe sees it") {
			assert.Equal(t, batch.ServiceID("sea"), pauses[0].Service)
		}

		w.final(t)
		assert.Equal(t, "confirmed", ask(t, w).State)
		assert.Less(t, time.Since(begin), time.Hour+time.Minute)
		assert.Equal(t, []batch.ID{"s-1"}, w.ledger.Log("sea"))
	})
}

// TestRejected shows that a shipment that the ledger refuses does not delay others.
func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, ledger.Options{Fault: func(a batch.Attempt) ledger.Fault {
			if a.ID == "s-1" {
				return ledger.Fault{Kind: ledger.Rejected}
			}
			return ledger.Fault{}
		}})
		book(t, w)
		code, _ := call(t, w, "POST", "/shipments", `{"carrier": "sea", "id": "s-2", "goods": "silk"}`)
		require.Equal(t, http.StatusAccepted, code)
		require.NoError(t, w.runner.Idle(t.Context()))

		a := ask(t, w)
		assert.Equal(t, "refused", a.State)
		assert.Contains(t, a.Why, "refused by policy")
		assert.Equal(t, []batch.ID{"s-2"}, w.ledger.Log("sea"))
	})
}

// TestDoubt shows that a shipment is delivered once if the reply is lost after the ledger took the
// shipment. The ledger executes duplicates, so sending the shipment again would deliver the tea
// twice.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, ledger.Options{Fault: func(batch.Attempt) ledger.Fault {
			return ledger.Fault{Kind: ledger.LostReply}
		}})
		book(t, w)
		time.Sleep(500 * time.Millisecond) // the attempt is over, and its outcome is not known
		a := ask(t, w)
		assert.Equal(t, "waiting", a.State)
		assert.Contains(t, a.Why, "not known yet")
		assert.Equal(t, 1, w.final(t).Attempt)
		assert.Equal(t, "confirmed", ask(t, w).State)
		assert.Equal(t, []batch.ID{"s-1"}, w.ledger.Log("sea"))
	})
}

// TestDoubtThatNobodyCanResolve shows that a shipment in doubt is not sent again on a ledger that
// executes duplicates and gives no evidence; a person decides.
func TestDoubtThatNobodyCanResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, ledger.Options{
			Traits: &dlt.Traits{Name: "mute", LateArrival: time.Second, Grace: time.Second},
			Fault: func(a batch.Attempt) ledger.Fault {
				if a.Number == 1 {
					return ledger.Fault{Kind: ledger.LostRequest}
				}
				return ledger.Fault{}
			},
		})
		book(t, w)
		time.Sleep(time.Minute)
		a := ask(t, w)
		assert.Equal(t, "stuck", a.State)
		assert.Contains(t, a.Why, "no evidence")
		assert.Empty(t, w.ledger.Log("sea"))

		// A person has found that the ledger does not have the shipment, and rules that it is sent
		// again.
		seen, err := w.store.Get(t.Context(), batch.Key{Service: "sea", ID: "s-1"})
		require.NoError(t, err)
		_, err = w.store.Decide(t.Context(), seen, batch.NotExecutedSendAgain, batch.By{Actor: "ann", Reason: "looked it up by hand"})
		require.NoError(t, err)
		w.runner.Wake("sea")
		assert.Equal(t, 2, w.final(t).Attempt)
		assert.Equal(t, "confirmed", ask(t, w).State)
		assert.Equal(t, []batch.ID{"s-1"}, w.ledger.Log("sea"))
	})
}

// TestInput shows what the service answers to invalid requests.
func TestInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, ledger.Options{})
		book(t, w)
		book(t, w) // sending the same shipment again is accepted
		for body, want := range map[string]int{
			strings.Replace(tea, "tea", "gold", 1): http.StatusConflict,
			`{"carrier": "sea", "goods": "tea"}`:   http.StatusBadRequest,
			`tea`:                                  http.StatusBadRequest,
		} {
			code, _ := call(t, w, "POST", "/shipments", body)
			assert.Equal(t, want, code, body)
		}
		code, _ := call(t, w, "GET", "/shipments/sea/s-9", "")
		assert.Equal(t, http.StatusNotFound, code)
		w.final(t)
		assert.Equal(t, []batch.ID{"s-1"}, w.ledger.Log("sea"))
	})
}
