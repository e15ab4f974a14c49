package ask

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// restarts remembers which nodes have lost their memory, on ledgers whose nodes ignore a resend of
// a batch that they remember (dlt.Traits.ResendQuiet). One batch shows it for all: a node that
// answered PENDING about it, and answers UNKNOWN about the same attempt later, was restarted in
// between, and forgot every batch that was posted before it answered PENDING. docs/resend.md has
// the proof. Safety does not depend on restarts: if a node's restart is forgotten here, a batch
// waits longer.
type restarts struct {
	mu           sync.Mutex
	pending      map[attemptKey]pendingAnswer
	startedAfter map[string]time.Time // by endpoint: a time after which it was restarted
}

type attemptKey struct {
	key    batch.Key
	number int
}

// pendingAnswer says that an endpoint answered PENDING about an attempt, after the time at.
type pendingAnswer struct {
	endpoint   string
	answeredAt time.Time
}

const (
	// maxPendingAnswers bounds the attempts that are remembered, and maxEndpoints the endpoints.
	maxPendingAnswers = 10_000
	maxEndpoints      = 1000
)

// noteAnswers takes the answers to a question, and the times at which it was asked and answered.
// It returns the batches of the group that their endpoints have forgotten.
func (r *restarts) noteAnswers(g *group, byID map[batch.ID]*batch.Status, asked, answered time.Time) (forgotten map[batch.ID]bool) {
	if g.traits.ResendQuiet == 0 || len(byID) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil || len(r.pending) > maxPendingAnswers || len(r.startedAfter) > maxEndpoints {
		r.pending, r.startedAfter = map[attemptKey]pendingAnswer{}, map[string]time.Time{}
	}
	for i := range g.rows {
		f := &g.rows[i].Row
		st, of := byID[f.Key.ID], attemptKey{f.Key, f.Attempt}
		if st == nil || st.Endpoint == "" {
			continue
		}
		was, known := r.pending[of]
		delete(r.pending, of)
		switch {
		case st.Reported == batch.ReportedPending:
			r.pending[of] = pendingAnswer{st.Endpoint, asked}
		case st.Reported != batch.ReportedUnknown:
		case known && was.endpoint == st.Endpoint:
			r.noteRestart(st.Endpoint, was.answeredAt)
		case f.Seen == st.Endpoint:
			r.noteRestart(st.Endpoint, answered.Add(-f.PostedAgo))
		}
	}
	for i := range g.rows {
		f := &g.rows[i].Row
		st := byID[f.Key.ID]
		if st == nil || st.Reported != batch.ReportedUnknown {
			continue
		}
		if since, known := r.startedAfter[st.Endpoint]; known && !answered.Add(-f.PostedAgo).After(since) {
			if forgotten == nil {
				forgotten = map[batch.ID]bool{}
			}
			forgotten[f.Key.ID] = true
		}
	}
	return forgotten
}

func (r *restarts) noteRestart(endpoint string, after time.Time) {
	if after.After(r.startedAfter[endpoint]) {
		r.startedAfter[endpoint] = after
	}
}
