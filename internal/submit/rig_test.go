package submit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// ledger is a ledger whose Submit calls submit.
type ledger struct {
	dlt.Ledger
	traits   dlt.Traits
	submit   func(ctx context.Context, a batch.Attempt) error
	lister   *listLedger
	preparer interface {
		Prepare(ctx context.Context, a batch.Attempt) ([]byte, error)
	}
}

func (l *ledger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	return l.lister.SubmitList(ctx, list)
}

func (l *ledger) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	return l.preparer.Prepare(ctx, a)
}

func (l *ledger) Traits(batch.ServiceID) dlt.Traits { return l.traits }
func (l *ledger) Submit(ctx context.Context, a batch.Attempt) error {
	return l.submit(ctx, a)
}

// request is one Submit as the ledger saw it.
type request struct {
	sentAfter, deadline time.Duration
	id                  batch.ID
	attempt             int
	payload             string
}

type event struct {
	reportedAfter time.Duration
	isPause       bool
	service       batch.ServiceID
	ofLedger      bool
}

// submitterTest is a submitter that runs, and a record of its work.
type submitterTest struct {
	*submit.Submitter
	ledger *ledger
	begin  time.Time
	ended  chan struct{}
	stop   context.CancelFunc

	mu         sync.Mutex
	requests   []request
	lists      []string // the ids of each request with several batches
	outcomes   []store.Outcome
	events     []event
	errs       []error
	readyCalls int
}

// start runs a submitter whose ledger answers with answer, after noting the request.
func start(t *testing.T, answer func(ctx context.Context, a batch.Attempt) error, change func(*submit.Options, *ledger)) *submitterTest {
	r := build(answer, change)
	r.run(t)
	return r
}

// build makes the rig that run runs.
func build(answer func(ctx context.Context, a batch.Attempt) error, change func(*submit.Options, *ledger)) *submitterTest {
	r := &submitterTest{begin: time.Now(), ended: make(chan struct{})}
	r.ledger = &ledger{traits: dlt.Traits{Name: "fake"}, submit: func(ctx context.Context, a batch.Attempt) error {
		deadline, _ := ctx.Deadline()
		r.mu.Lock()
		r.requests = append(r.requests, request{time.Since(r.begin), deadline.Sub(r.begin), a.ID, a.Number, string(a.Payload)})
		r.mu.Unlock()
		return answer(ctx, a)
	}}
	note := func(paused bool, s batch.ServiceID, all bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, event{time.Since(r.begin), paused, s, all})
	}
	o := submit.Options{
		MaxRequests: 8, RequestTimeout: timeout, Retry: func(batch.ServiceID) (int, time.Duration) { return 3, 250 * time.Millisecond }, MaxBatches: 500,
		Rules: submitter.Rules{FirstCheck: time.Millisecond, Delay: func(batch.ServiceID, int) time.Duration { return time.Second }},
		Record: func(o store.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.outcomes = append(r.outcomes, o)
		},
		Ready: func() { r.mu.Lock(); defer r.mu.Unlock(); r.readyCalls++ },
		Paused: func(sc submit.Scope, err error) {
			note(true, sc.Service, sc.All)
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
		},
		Resumed: func(sc submit.Scope) { note(false, sc.Service, sc.All) },
	}
	if change != nil {
		change(&o, r.ledger)
	}
	r.Submitter = submit.New(r.ledger, o)
	return r
}

func (r *submitterTest) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		defer close(r.ended)
		r.Run(ctx)
	}()
}

// post posts a run whose requests must have ended at until after now.
func (r *submitterTest) post(until time.Duration, service batch.ServiceID, ids ...batch.ID) {
	run := store.ClaimedRun{Service: service}
	var payloads [][]byte
	for _, id := range ids {
		run.Batches = append(run.Batches, store.Claim{
			Ref: store.Ref{Key: batch.Key{Service: service, ID: id}}, Version: 2, From: batch.Queued, Attempt: 1,
		})
		payloads = append(payloads, []byte("payload of "+id))
	}
	r.Post(run, payloads, time.Now().Add(until))
}

// stopAndWait stops the submitter and waits for it.
func (r *submitterTest) stopAndWait() {
	r.stop()
	<-r.ended
}

func (r *submitterTest) requestsSoFar() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *submitterTest) eventsSoFar() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// findings returns the findings so far, as "id finding", in the order of recording.
func (r *submitterTest) findings() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.outcomes {
		out = append(out, fmt.Sprint(o.Key.ID, " ", o.Finding))
	}
	return out
}

func accept(context.Context, batch.Attempt) error { return nil }

// answerInTurn answers with each error in turn, and then always with the last one.
func answerInTurn(answers ...error) func(context.Context, batch.Attempt) error {
	var mu sync.Mutex
	return func(context.Context, batch.Attempt) error {
		mu.Lock()
		defer mu.Unlock()
		err := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return err
	}
}

func acceptAfter(d time.Duration) func(context.Context, batch.Attempt) error {
	return func(ctx context.Context, _ batch.Attempt) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// feed keeps posting single batches of one service while there is room, as the
// queuer does, until the test ends.
func (r *submitterTest) feed(ctx context.Context, service batch.ServiceID) {
	for i := 0; ctx.Err() == nil; i++ {
		if n, _ := r.Room(); n > 0 && r.Closed(service) == 0 {
			r.post(farUntil, service, batch.ID(fmt.Sprint(service, i)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func closedForASecond(batch.ServiceID) (int, time.Duration) { return 0, time.Second }

// readyCount returns how often the queuer was woken.
func (r *submitterTest) readyCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readyCalls
}
