package inhand_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

const (
	firstPoll    = 10 * time.Millisecond
	pollInterval = time.Second
	maxHold      = 50 * time.Millisecond
)

var rules = inhand.Rules{FirstPoll: firstPoll, PollInterval: pollInterval, MaxHold: maxHold}

// tableTest is a table that runs, and a record of its effects, each with its time.
type tableTest struct {
	*inhand.Table
	t         *testing.T
	stream    *inhand.Stream // stream of the group l
	traits    dlt.Traits
	startedAt time.Time
	stop      func()

	mu         sync.Mutex
	writes     []string // each is "time: finding id, finding id"
	outcomes   []store.Outcome
	askedLists []string // each is "time: id, id"
	asked      []inhand.Question
	answer     func([]inhand.Question) // answers questions at once; nil if the test answers later, or never
	lanes      []string
}

func (r *tableTest) note(list *[]string, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, fmt.Sprintf("%s: ", time.Since(r.startedAt).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (r *tableTest) takeList(list *[]string) []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := *list
	*list = nil
	return got
}

// laneRecorder records the table's reports about lanes.
type laneRecorder struct{ rig *tableTest }

func (l laneRecorder) Free(at time.Time, lanes ...batch.ServiceID) {
	switch d := time.Until(at); {
	case len(lanes) == 0:
	case d > 0:
		l.rig.note(&l.rig.lanes, "%s in %s", lanes[0], d)
	default:
		l.rig.note(&l.rig.lanes, "free %s", lanes)
	}
}

func (l laneRecorder) RunEnded(s batch.ServiceID) { l.rig.note(&l.rig.lanes, "over %s", s) }

// start runs a table in the test's bubble.
func start(t *testing.T, change func(*inhand.Options)) *tableTest {
	r := &tableTest{t: t, startedAt: time.Now(), traits: dlt.Traits{Name: "l", Streams: true}}
	write := func(first store.Outcome, rest ...store.Outcome) {
		all := append([]store.Outcome{first}, rest...)
		text := ""
		for i, o := range all {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprint(o.Finding, " ", o.Key.ID)
		}
		r.note(&r.writes, "%s", text)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.outcomes = append(r.outcomes, all...)
	}
	o := inhand.Options{
		Rules: rules, TTL: time.Minute,
		Traits:  func(batch.ServiceID) dlt.Traits { return r.traits },
		MayWait: func(store.Outcome) bool { return true },
		Write:   write,
		Lanes:   laneRecorder{r},
	}
	if change != nil {
		change(&o)
	}
	r.Table = inhand.New(o)
	r.stream = r.Stream("l")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, func(all []inhand.Question) {
			r.mu.Lock()
			r.asked = append(r.asked, all...)
			r.mu.Unlock()
			text := ""
			for i, q := range all {
				if i > 0 {
					text += ", "
				}
				text += string(q.Row.Key.ID)
			}
			r.note(&r.askedLists, "%s", text)
			r.mu.Lock()
			answer := r.answer
			r.mu.Unlock()
			if answer != nil {
				answer(all)
			}
		})
	}()
	synctest.Wait()
	r.stop = func() {
		cancel()
		<-done
	}
	return r
}

func key(id string) batch.Key { return batch.Key{Service: "s", ID: batch.ID(id)} }

func (r *tableTest) setAnswer(f func([]inhand.Question)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// answerTo returns the answer to a question from memory.
func answerTo(key batch.Key, kind inhand.EventKind) inhand.Answer {
	return inhand.Answer{Question: &inhand.Question{Row: store.InFlight{Ref: store.Ref{Key: key}}}, Kind: kind}
}

// askAboutRow gives the table a row from the store, and returns the question about it.
func (r *tableTest) askAboutRow(t *testing.T, row store.InFlight) inhand.Question {
	t.Helper()
	assert.Empty(t, r.Scanned([]store.InFlight{row}, time.Now(), false))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[len(r.asked)-1]
}

// firstSeenAgo returns for how long this process has known a row that the store gave.
func (r *tableTest) firstSeenAgo(t *testing.T, row store.InFlight) time.Duration {
	t.Helper()
	return r.askAboutRow(t, row).KnownFor
}

// claimAll claims batches in one run.
func (r *tableTest) claimAll(ids ...string) {
	run := store.ClaimedRun{Service: "s"}
	for _, id := range ids {
		run.Batches = append(run.Batches, store.Claim{Ref: store.Ref{Key: key(id)}, Version: 2})
	}
	r.Claimed(run)
}

// acceptedOutcome returns the submitter's outcome of a batch that was accepted.
func acceptedOutcome(id string) store.Outcome {
	was := store.NewRow().Claim(time.Now(), time.Minute, store.Resend{})
	return store.Outcome{
		Ref: store.Ref{Key: key(id), Row: 7}, Version: was.Version, Was: &was, Attempt: 1, By: batch.BySubmitter, Finding: store.Accepted,
	}
}

// eventCommit returns the commit of a batch as an event reports it.
func eventCommit(id string) store.Outcome {
	return store.Outcome{
		Ref: store.Ref{Key: key(id)}, Finding: store.IsCommitted, By: batch.ByMonitor,
		Receipts: []batch.Receipt{{TransactionID: "t", Valid: true}},
	}
}

func findingOutcome(id string, f store.Finding) store.Outcome {
	return store.Outcome{Ref: store.Ref{Key: key(id)}, Version: 3, Finding: f, By: batch.ByMonitor}
}

// writeOutcome tells the table that the store has written an outcome.
func (r *tableTest) writeOutcome(o store.Outcome, s batch.State, version int64) {
	row := store.Row{State: s, Version: version, Attempt: 1, LastPost: time.Now()}
	if s == batch.Committed {
		row.FinalAt = time.Now()
	}
	r.Written([]inhand.Recorded{{Outcome: o, Applied: store.Applied{Ref: o.Ref, Result: store.Written, Row: row}}})
}

// openBatch takes a batch from its claim to Pending.
func (r *tableTest) openBatch(id string) {
	r.claimAll(id)
	o := acceptedOutcome(id)
	r.Answered(o)
	r.Asked([]inhand.Answer{answerTo(o.Key, inhand.StillAccepted)})
	o.Check = pollInterval
	r.writeOutcome(o, batch.Pending, 3)
	r.takeList(&r.writes)
}
