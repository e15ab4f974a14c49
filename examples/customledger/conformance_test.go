package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
)

// TestConformance runs the whole suite against a notary that fails on demand.
func TestConformance(t *testing.T) {
	dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness {
		d := &faultyNotary{notary: NewNotary(5 * time.Millisecond)}
		d.Server = dlttest.NewServer(t, 1, d)
		client := NewClient(d.URLs()[0])
		d.CloseIdle = client.http.CloseIdleConnections
		t.Cleanup(d.CloseIdle)
		return &dlttest.Harness{
			Ledger: client, Batch: d.newBatch, Set: d.Set, Posts: d.Posts, LargestQuery: d.LargestQuery, RetryAfter: 7 * time.Second,
			Lacks: map[dlttest.Fault]string{dlttest.NotYet: "no answer of it says of one batch that it cannot be now"},
		}
	})
}

// faultyNotary stands in front of the notary and makes requests fail.
type faultyNotary struct {
	*dlttest.Server
	notary     *Notary
	batchCount atomic.Int64
}

func (d *faultyNotary) newBatch(s batch.ServiceID, content string) batch.Batch {
	text := "text of " + content
	switch d.Fault() {
	case dlttest.Decided:
		text = "void " + text
	case dlttest.Refused:
		text += strings.Repeat(".", maxTextBytes)
	}
	return batch.Batch{ID: batch.ID(fmt.Sprintf("b%04d", d.batchCount.Add(1))), Service: s, Payload: []byte(text)}
}

// ServeHTTP implements [http.Handler].
func (d *faultyNotary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	redirected := strings.HasPrefix(r.URL.Path, "/elsewhere")
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/elsewhere")
	ids := r.URL.Query()["id"]
	fault := d.Fault()
	if r.Method == http.MethodPost {
		d.Posted(batch.ID(ids[0]))
	} else {
		d.Queried(len(ids))
	}
	switch {
	case r.Method != http.MethodPost:
		d.answerStates(w, r, fault)
	case fault == dlttest.Redirect && !redirected:
		http.Redirect(w, r, "/elsewhere"+r.RequestURI, http.StatusTemporaryRedirect)
	default:
		d.answerPost(w, r, fault)
	}
}

func (d *faultyNotary) answerPost(w http.ResponseWriter, r *http.Request, fault dlttest.Fault) {
	switch fault {
	case dlttest.Busy:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	case dlttest.Misconfigured:
		w.WriteHeader(http.StatusForbidden)
	case dlttest.UnknownAnswer:
		w.WriteHeader(http.StatusTeapot)
	case dlttest.LostRequest:
		panic(http.ErrAbortHandler) // closes the connection
	case dlttest.LostReply:
		d.notary.ServeHTTP(httptest.NewRecorder(), r)
		resetConnection(w)
	case dlttest.Hang:
		d.notary.ServeHTTP(httptest.NewRecorder(), r)
		<-r.Context().Done()
	default:
		d.notary.ServeHTTP(w, r)
	}
}

// resetConnection ends a connection with a reset, which a client sees as a different error than an
// orderly close.
func resetConnection(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

func (d *faultyNotary) answerStates(w http.ResponseWriter, r *http.Request, fault dlttest.Fault) {
	states := d.notary.states(r.URL.Query()["id"])
	switch fault {
	case dlttest.StatusLost:
		resetConnection(w)
		return
	case dlttest.StatusHang:
		<-r.Context().Done()
		return
	case dlttest.StatusGarbage:
		_, _ = w.Write([]byte("<html>"))
		return
	case dlttest.StatusUnknownWord:
		states[0].State = "sublime"
	case dlttest.StatusMissing:
		states = states[1:]
	case dlttest.StatusStranger:
		states = append(states, entryState{ID: "stranger", State: "written"})
	case dlttest.StatusShuffled:
		slices.Reverse(states)
	}
	_ = json.NewEncoder(w).Encode(states) // an error means that the client has gone
}
