package splinter_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// rootTest is a testNetwork whose client follows the root hashes of states.
type rootTest struct {
	*testNetwork
	store     *memory.Store
	isMute    atomic.Bool // queries for roots are refused
	rootReads atomic.Int64

	entriesBefore int // how many transactions were committed before the stream was opened
}

func newRootTest(t *testing.T, never bool) *rootTest {
	st := memory.New()
	r := &rootTest{testNetwork: openTestNetwork(t, splintertest.Options{}, st, nil), store: st}
	r.refusesCircuitQueries.Store(true) // so that receipts prove nothing here
	target, err := url.Parse(r.network.URL(0))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/state_root") {
			proxy.ServeHTTP(w, q)
			return
		}
		if r.isMute.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		state, sum := r.network.State(r.service), sha256.New()
		for _, name := range slices.Sorted(maps.Keys(state)) {
			_, _ = fmt.Fprintln(sum, name, state[name])
		}
		r.rootReads.Add(1)
		_ = json.NewEncoder(w).Encode(fmt.Sprintf("%x", sum.Sum(nil)))
	}))
	t.Cleanup(front.Close)
	o := clientOptions(st)
	o.Replay, o.StateNeverReturns = false, never
	r.client = newClient(t, front.URL, o)
	r.newCommittedBatch()
	r.entriesBefore = len(r.network.Transactions(r.service))
	r.startEvents(r.client)
	waitUntilLogCovers(t, st, r.service, 2*testMargin, time.Time{})
	return r
}

func (r *rootTest) logCursor() string {
	found, err := r.store.FindStream(r.Context(), "scabbard "+string(r.service), nil)
	require.NoError(r, err)
	return found.Cursor
}

// waitForSettledRoot waits until the log has every committed transaction, and ends with a root. A
// root alone may be an earlier one, since the event of the last commit may still be on its way.
func (r *rootTest) waitForSettledRoot() {
	r.Helper()
	ids := r.network.Transactions(r.service)[r.entriesBefore:]
	require.True(r, pollUntil(time.Millisecond, 5*time.Second, func() bool {
		found, err := r.store.FindStream(r.Context(), "scabbard "+string(r.service), ids)
		require.NoError(r, err)
		return found.Cursor != "" && len(found.IDs) == len(ids)
	}), "no root")
}

// breakStream ends the streams, and calls meanwhile while no stream is open.
func (r *rootTest) breakStream(meanwhile func()) {
	r.Helper()
	was := r.refusedCount.Load()
	r.hidesStatuses.Store(true)
	r.network.CutStreams(0)
	require.True(r, pollUntil(time.Millisecond, 5*time.Second, func() bool {
		return r.network.Streams(0) == 0 && r.refusedCount.Load() > was // the client has noticed that its stream ended
	}))
	meanwhile()
	r.network.Restart(0) // the node's queue and memory are lost
	r.knownIDs = nil
	r.hidesStatuses.Store(false)
}

func (r *rootTest) commitPayload(payload []byte, address string) {
	r.Helper()
	b := buildBatch(r, r.service, newTransaction(payload, address))
	_, err := r.post(b, time.Second)
	require.NoError(r, err)
	r.waitForStatus(b, batch.ReportedCommitted)
}

// The node has restarted, and the state is the same as before: no batch was committed in between.
func TestLogContinuesAfterABreak(t *testing.T) {
	for name, events := range map[string]int{"after no event": 0, "after some": 3} {
		t.Run(name, func(t *testing.T) {
			r := newRootTest(t, true)
			for range events {
				r.newCommittedBatch()
			}
			r.waitForSettledRoot()
			d := r.postWithoutAnswer(splintertest.NotAccepted)
			for range 3 {
				r.breakStream(func() {})
			}
			r.requireEvidence(d, dlt.NotCommitted)
		})
	}
}

// A batch was committed while no stream was open, so the log begins anew.
func TestLogBeginsAnewAfterABreak(t *testing.T) {
	r := newRootTest(t, true)
	r.waitForSettledRoot()
	var d postedAttempt
	cut := time.Now()
	r.breakStream(func() {
		held := r.client
		r.client = newClient(t, r.network.URL(0), clientOptions(nil)) // so that a late POST is not held back
		d = r.postWithoutAnswer(splintertest.AcceptedFirst)
		r.waitForStatus(d.Batch, batch.ReportedCommitted)
		r.client = held
	})
	waitUntilLogCovers(t, r.store, r.service, 0, cut) // the log begins anew
	r.requireEvidence(d, dlt.Committed)               // the evidence comes from the receipts
}

// A state that returns is the same before and after commits in a gap. Without StateNeverReturns
// the client draws no conclusion from equal states.
func TestLogOfAStateThatReturns(t *testing.T) {
	r := newRootTest(t, false)
	r.commitPayload(splintertest.Set("lock", 0))
	require.Empty(t, r.logCursor())
	require.Zero(t, r.rootReads.Load(), "roots that nobody needs")
	var d postedAttempt
	r.breakStream(func() {
		b := buildBatch(t, r.service, newTransaction(splintertest.Set("lock", 1)))
		var err error
		d, err = r.post(b, time.Second)
		require.NoError(t, err)
		r.waitForStatus(b, batch.ReportedCommitted)
		r.commitPayload(splintertest.Set("lock", 0))
	})
	r.requireEvidence(d, dlt.Committed)
}

// The last event came, and the node died before its root was read: the known root is an older one,
// and proves nothing about the time after that event.
func TestLogOfARootBeforeTheLastEvent(t *testing.T) {
	r := newRootTest(t, true)
	r.waitForSettledRoot()
	r.isMute.Store(true)
	r.newCommittedBatch()
	require.True(t, pollUntil(time.Millisecond, 5*time.Second, func() bool { return r.logCursor() == "" }))
	d := r.postWithoutAnswer(splintertest.NotAccepted)
	r.breakStream(func() {})
	r.isMute.Store(false)
	r.requireNoEvidence(d)
}

// If roots cannot be read, there is no evidence over gaps, but the log is still written.
func TestLogWithoutRoots(t *testing.T) {
	r := newRootTest(t, true)
	r.waitForSettledRoot()
	r.isMute.Store(true)
	cut := time.Now()
	r.breakStream(func() {})
	waitUntilLogCovers(t, r.store, r.service, 0, cut)
}

// A new batch waits until the stream is open again: otherwise it would change the state, and the
// log could not go on.
func TestNewBatchesWaitForTheLog(t *testing.T) {
	r := newRootTest(t, true)
	r.newCommittedBatch()
	r.waitForSettledRoot()
	d := r.postWithoutAnswer(splintertest.NotAccepted)
	next := incBatch(t, r.service, "next")
	r.breakStream(func() {
		_, err := r.post(next, time.Second)
		require.Equal(t, batch.KindUnavailable, dlt.Kind(err), "%v", err)
		require.Zero(t, r.network.Posts(next.ID))
	})
	require.Eventually(t, func() bool {
		_, err := r.post(next, time.Second)
		return err == nil
	}, 30*time.Second, time.Millisecond)
	r.requireEvidence(d, dlt.NotCommitted)
}

// After a commit that no stream reported, the log begins anew. A new batch waits until the log can
// prove something about it, so that the next crash leaves no doubt about it.
func TestNewBatchesWaitForALogThatBeganAnew(t *testing.T) {
	r := newRootTest(t, true)
	r.waitForSettledRoot()
	r.breakStream(func() {
		held := r.client
		r.client = newClient(t, r.network.URL(0), clientOptions(nil)) // another client, which does not wait
		d := r.postWithoutAnswer(splintertest.AcceptedFirst)
		r.waitForStatus(d.Batch, batch.ReportedCommitted)
		r.client = held
	})
	waitUntilLogCovers(t, r.store, r.service, 0, time.Now())
	next := incBatch(t, r.service, "next")
	require.Eventually(t, func() bool {
		_, err := r.post(next, time.Second)
		return err == nil
	}, 30*time.Second, time.Millisecond)
	found, err := r.store.FindStream(t.Context(), "scabbard "+string(r.service), nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, found.Since, 2*testMargin)
}

// No batch waits if the log cannot go on: without StateNeverReturns, or without a root at its end.
func TestNothingWaitsInVain(t *testing.T) {
	for name, never := range map[string]bool{"states return": false, "no root is known": true} {
		t.Run(name, func(t *testing.T) {
			r := newRootTest(t, never)
			if never {
				r.waitForSettledRoot()
				r.isMute.Store(true)
			}
			r.newCommittedBatch()
			require.True(t, pollUntil(time.Millisecond, 5*time.Second, func() bool { return r.logCursor() == "" }))
			r.breakStream(func() {
				_, err := r.post(incBatch(t, r.service, "next"), time.Second)
				require.NoError(t, err)
			})
		})
	}
}
