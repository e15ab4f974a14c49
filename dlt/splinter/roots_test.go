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

// rooted is a world whose client follows the root hashes of states.
type rooted struct {
	*world
	st   *memory.Store
	mute atomic.Bool // queries for roots are refused
	read atomic.Int64

	before int // how many transactions were committed before the stream was opened
}

func newRooted(t *testing.T, never bool) *rooted {
	st := memory.New()
	r := &rooted{world: openWorld(t, splintertest.Options{}, st, nil), st: st}
	r.alone.Store(true) // so that receipts prove nothing here
	target, err := url.Parse(r.net.URL(0))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/state_root") {
			proxy.ServeHTTP(w, q)
			return
		}
		if r.mute.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		state, sum := r.net.State(r.service), sha256.New()
		for _, name := range slices.Sorted(maps.Keys(state)) {
			_, _ = fmt.Fprintln(sum, name, state[name])
		}
		r.read.Add(1)
		_ = json.NewEncoder(w).Encode(fmt.Sprintf("%x", sum.Sum(nil)))
	}))
	t.Cleanup(front.Close)
	o := options(st)
	o.Replay, o.StateNeverReturns = false, never
	r.c = newClient(t, front.URL, o)
	r.committed()
	r.before = len(r.net.Transactions(r.service))
	r.streaming(r.c)
	covered(t, st, r.service, 2*margin, time.Time{})
	return r
}

func (r *rooted) cursor() string {
	found, err := r.st.FindStream(r.Context(), "scabbard "+string(r.service), nil)
	require.NoError(r, err)
	return found.Cursor
}

// settled waits until the log has every committed transaction, and ends with a root. A root alone
// may be an earlier one, since the event of the last commit may still be on its way.
func (r *rooted) settled() {
	r.Helper()
	ids := r.net.Transactions(r.service)[r.before:]
	require.True(r, every(time.Millisecond, 5*time.Second, func() bool {
		found, err := r.st.FindStream(r.Context(), "scabbard "+string(r.service), ids)
		require.NoError(r, err)
		return found.Cursor != "" && len(found.IDs) == len(ids)
	}), "no root")
}

// gap ends the streams, and calls meanwhile while no stream is open.
func (r *rooted) gap(meanwhile func()) {
	r.Helper()
	was := r.refused.Load()
	r.blind.Store(true)
	r.net.CutStreams(0)
	require.True(r, every(time.Millisecond, 5*time.Second, func() bool {
		return r.net.Streams(0) == 0 && r.refused.Load() > was // the client has noticed that its stream ended
	}))
	meanwhile()
	r.net.Restart(0) // the node's queue and memory are lost
	r.known = nil
	r.blind.Store(false)
}

func (r *rooted) commit(payload []byte, address string) {
	r.Helper()
	b := build(r, r.service, tx(payload, address))
	_, err := r.post(b, time.Second)
	require.NoError(r, err)
	r.becomes(b, batch.ReportedCommitted)
}

// The node has restarted, and the state is the same as before: no batch was committed in between.
func TestLogGoesOn(t *testing.T) {
	for name, events := range map[string]int{"after no event": 0, "after some": 3} {
		t.Run(name, func(t *testing.T) {
			r := newRooted(t, true)
			for range events {
				r.committed()
			}
			r.settled()
			d := r.lost(splintertest.NotAccepted)
			for range 3 {
				r.gap(func() {})
			}
			r.resolves(d, dlt.NotCommitted)
		})
	}
}

// A batch was committed while no stream was open, so the log begins anew.
func TestLogDoesNotGoOn(t *testing.T) {
	r := newRooted(t, true)
	r.settled()
	var d doubtful
	cut := time.Now()
	r.gap(func() {
		held := r.c
		r.c = newClient(t, r.net.URL(0), options(nil)) // so that a late POST is not held back
		d = r.lost(splintertest.AcceptedFirst)
		r.becomes(d.Batch, batch.ReportedCommitted)
		r.c = held
	})
	covered(t, r.st, r.service, 0, cut) // the log begins anew
	r.resolves(d, dlt.Committed)        // the evidence comes from the receipts
}

// A state that returns is the same before and after commits in a gap. Without StateNeverReturns
// the client draws no conclusion from equal states.
func TestLogOfAStateThatReturns(t *testing.T) {
	r := newRooted(t, false)
	r.commit(splintertest.Set("lock", 0))
	require.Empty(t, r.cursor())
	require.Zero(t, r.read.Load(), "roots that nobody needs")
	var d doubtful
	r.gap(func() {
		b := build(t, r.service, tx(splintertest.Set("lock", 1)))
		var err error
		d, err = r.post(b, time.Second)
		require.NoError(t, err)
		r.becomes(b, batch.ReportedCommitted)
		r.commit(splintertest.Set("lock", 0))
	})
	r.resolves(d, dlt.Committed)
}

// The last event came, and the node died before its root was read: the known root is an older one,
// and proves nothing about the time after that event.
func TestLogOfARootBeforeTheLastEvent(t *testing.T) {
	r := newRooted(t, true)
	r.settled()
	r.mute.Store(true)
	r.committed()
	require.True(t, every(time.Millisecond, 5*time.Second, func() bool { return r.cursor() == "" }))
	d := r.lost(splintertest.NotAccepted)
	r.gap(func() {})
	r.mute.Store(false)
	r.never(d)
}

// If roots cannot be read, there is no evidence over gaps, but the log is still written.
func TestLogWithoutRoots(t *testing.T) {
	r := newRooted(t, true)
	r.settled()
	r.mute.Store(true)
	cut := time.Now()
	r.gap(func() {})
	covered(t, r.st, r.service, 0, cut)
}

// A new batch waits until the stream is open again: otherwise it would change the state, and the
// log could not go on.
func TestNewBatchesWaitForTheLog(t *testing.T) {
	r := newRooted(t, true)
	r.committed()
	r.settled()
	d := r.lost(splintertest.NotAccepted)
	next := inc(t, r.service, "next")
	r.gap(func() {
		_, err := r.post(next, time.Second)
		require.Equal(t, batch.KindUnavailable, dlt.Kind(err), "%v", err)
		require.Zero(t, r.net.Posts(next.ID))
	})
	require.Eventually(t, func() bool {
		_, err := r.post(next, time.Second)
		return err == nil
	}, 30*time.Second, time.Millisecond)
	r.resolves(d, dlt.NotCommitted)
}

// After a commit that no stream reported, the log begins anew. A new batch waits until the log can
// prove something about it, so that the next crash leaves no doubt about it.
func TestNewBatchesWaitForALogThatBeganAnew(t *testing.T) {
	r := newRooted(t, true)
	r.settled()
	r.gap(func() {
		held := r.c
		r.c = newClient(t, r.net.URL(0), options(nil)) // another client, which does not wait
		d := r.lost(splintertest.AcceptedFirst)
		r.becomes(d.Batch, batch.ReportedCommitted)
		r.c = held
	})
	covered(t, r.st, r.service, 0, time.Now())
	next := inc(t, r.service, "next")
	require.Eventually(t, func() bool {
		_, err := r.post(next, time.Second)
		return err == nil
	}, 30*time.Second, time.Millisecond)
	found, err := r.st.FindStream(t.Context(), "scabbard "+string(r.service), nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, found.Since, 2*margin)
}

// No batch waits if the log cannot go on: without StateNeverReturns, or without a root at its end.
func TestNothingWaitsInVain(t *testing.T) {
	for name, never := range map[string]bool{"states return": false, "no root is known": true} {
		t.Run(name, func(t *testing.T) {
			r := newRooted(t, never)
			if never {
				r.settled()
				r.mute.Store(true)
			}
			r.committed()
			require.True(t, every(time.Millisecond, 5*time.Second, func() bool { return r.cursor() == "" }))
			r.gap(func() {
				_, err := r.post(inc(t, r.service, "next"), time.Second)
				require.NoError(t, err)
			})
		})
	}
}
