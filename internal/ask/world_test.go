package ask_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/ask"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/lanes"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

const (
	timeout      = 10 * time.Second
	claimTTL     = time.Minute
	lateArrival  = 5 * time.Second
	grace        = 30 * time.Second
	resendQuiet  = 20 * time.Minute
	pollInterval = time.Second
	firstPoll    = 10 * time.Millisecond
)

var rules = monitor.Rules{
	TTL: claimTTL, FirstPoll: firstPoll, PollInterval: pollInterval, StuckAfter: time.Hour,
	Delay: func(_ batch.ServiceID, n int) time.Duration { return time.Duration(n) * time.Second },
}

var ledgerTraits = dlt.Traits{Name: "l", LateArrival: lateArrival, Grace: grace, ResendQuiet: resendQuiet, Settle: 10 * time.Minute}

// row is a row that the monitor asks about.
type row struct {
	store.InFlight
	dueAt    time.Time
	postedAt time.Time
}

// query is one BatchStatuses call as the ledger saw it.
type query struct {
	sentAfter time.Duration
	service   batch.ServiceID
	ids       []batch.ID
	attempts  []int
}

// monitorTest is a store, a ledger and a recorder. A row whose outcome was recorded is removed.
type monitorTest struct {
	dlt.Unimplemented
	dlt.Submitter // nil, because a monitor sends nothing
	eventSource   // nil if the ledger sends no events

	startedAt        time.Time
	traits           dlt.Traits
	traitsOf         func(batch.ServiceID) dlt.Traits // used instead of traits, unless nil
	answer           func(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error)
	resolve          func(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error)
	pendingError     func() error // returns the error of a call of Pending
	lostPendingError func() error // returns an error of Pending whose rows were leased
	checkedError     func() error // returns the error of a call of Checked

	mu               sync.Mutex
	rows             []*row
	selects          []time.Duration
	writes           int // number of leases and checks written
	queries          []query
	outcomes         []store.Outcome // outcomes other than acceptances
	acceptancesByKey map[batch.Key]store.Outcome
	putAt            map[batch.ID]time.Duration
	troubles         []error

	table              *inhand.Table
	dueIn              func(time.Duration) // the monitor's DueIn
	acceptancesMayWait bool                // true if acceptances may wait for the ledger's next answer
}

func newMonitorTest() *monitorTest {
	return &monitorTest{startedAt: time.Now(), traits: dlt.Traits{Name: "l"}, putAt: map[batch.ID]time.Duration{}, acceptancesByKey: map[batch.Key]store.Outcome{}}
}

// Traits has Streams set if the test has a source of events.
func (w *monitorTest) Traits(s batch.ServiceID) dlt.Traits {
	if w.traitsOf != nil {
		return w.traitsOf(s)
	}
	return w.traits
}

func (w *monitorTest) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	return w.eventSource.Events(ctx, services, yield)
}

func (w *monitorTest) now() time.Duration { return time.Since(w.startedAt) }

// add puts a row into the store that is Pending and due after d.
func (w *monitorTest) add(service batch.ServiceID, id batch.ID, d time.Duration, change ...func(*row)) {
	r := &row{postedAt: time.Now(), dueAt: time.Now().Add(d)}
	r.InFlight = store.InFlight{
		Ref: store.Ref{Key: batch.Key{Service: service, ID: id}}, Version: 3, State: batch.Pending, Attempt: 1, DoubtAttempt: 1,
		Ended: true,
	}
	for _, c := range change {
		c(r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows = append(w.rows, r)
}

func key(service batch.ServiceID, id batch.ID) batch.Key { return batch.Key{Service: service, ID: id} }

// addAnswered tells the table that the ledger has just accepted a batch, and returns when to ask
// about it.
func (w *monitorTest) addAnswered(service batch.ServiceID, id batch.ID, took time.Duration, change ...func(*store.Outcome)) time.Duration {
	was := store.NewRow().Claim(time.Now(), time.Minute, store.Resend{})
	o := store.Outcome{Ref: store.Ref{Key: key(service, id), Row: 7}, Version: was.Version, Was: &was, Attempt: 1, By: batch.BySubmitter, Finding: store.Accepted}
	for _, c := range change {
		c(&o)
	}
	o.Post.Took = took
	w.table.Answered(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acceptancesByKey[o.Key].Check
}

// acceptances returns the ids of the batches whose acceptance was written.
func (w *monitorTest) acceptances() (ids []batch.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.acceptancesByKey {
		ids = append(ids, key.ID)
	}
	return ids
}

// addAcceptance puts a row into the store as the Runner that posted the batch does.
func (w *monitorTest) addAcceptance(service batch.ServiceID, id batch.ID) {
	w.add(service, id, w.addAnswered(service, id, 0))
	w.addStored(service, id)
}

// addStored tells the table that an acceptance is written.
func (w *monitorTest) addStored(service batch.ServiceID, id batch.ID, change ...func(*store.Row)) {
	w.mu.Lock()
	o := w.acceptancesByKey[key(service, id)]
	w.mu.Unlock()
	o.Key = key(service, id)
	row := store.Row{State: batch.Pending, Version: 3, Attempt: 1, DoubtAttempt: 1, LastPost: time.Now()}
	for _, c := range change {
		c(&row)
	}
	w.writeOutcome(o, row)
}

// writeOutcome tells the table that the store has written an outcome.
func (w *monitorTest) writeOutcome(o store.Outcome, row store.Row) {
	w.dueIn(w.table.Written([]inhand.Recorded{{Outcome: o, Applied: store.Applied{Ref: o.Ref, Result: store.Written, Row: row}}}))
}

func (w *monitorTest) Pending(ctx context.Context, q store.PendingQuery) (out []store.InFlight, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.selects = append(w.selects, w.now())
	if w.pendingError != nil {
		if err := w.pendingError(); err != nil {
			return nil, err
		}
	}
	for _, r := range w.rows {
		if len(out) < q.Limit && (q.Services == nil && !r.dueAt.After(time.Now()) || slices.Contains(q.Services, r.Key.Service)) {
			if q.Lease != 0 {
				w.writes++
				r.dueAt = time.Now().Add(q.Lease)
			}
			f := r.InFlight
			f.PostedAgo, f.CheckIn = time.Since(r.postedAt), time.Until(r.dueAt)
			out = append(out, f)
		}
	}
	if w.lostPendingError != nil {
		return out, w.lostPendingError()
	}
	return out, ctx.Err()
}

func (w *monitorTest) Payloads(_ context.Context, refs []store.Ref) ([][]byte, error) {
	return make([][]byte, len(refs)), nil
}

func (w *monitorTest) Witnesses(context.Context, store.Ref, int) ([]batch.ID, error) {
	return []batch.ID{"witness"}, nil
}

func (w *monitorTest) Checked(ctx context.Context, due []store.Due) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checkedError != nil {
		if err := w.checkedError(); err != nil {
			return err
		}
	}
	for _, d := range due {
		for _, r := range w.rows {
			if r.Key == d.Key {
				w.writes++
				r.dueAt = time.Now().Add(d.In)
			}
		}
	}
	return ctx.Err()
}

func (w *monitorTest) Put(all []store.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range all {
		if o.Finding == store.Accepted {
			w.acceptancesByKey[o.Key] = o
			continue
		}
		w.outcomes = append(w.outcomes, o)
		w.putAt[o.Key.ID] = w.now()
		w.rows = slices.DeleteFunc(w.rows, func(r *row) bool { return r.Key == o.Key })
	}
}

func (w *monitorTest) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	q := query{sentAfter: w.now(), service: service}
	for _, a := range attempts {
		q.ids = append(q.ids, a.ID)
		q.attempts = append(q.attempts, a.Number)
	}
	w.mu.Lock()
	w.queries = append(w.queries, q)
	w.mu.Unlock()
	if w.answer == nil {
		return committedStatuses(attempts), nil
	}
	return w.answer(ctx, service, attempts)
}

func (w *monitorTest) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	return w.resolve(ctx, d)
}

func committedStatuses(attempts []batch.Attempt) (out []batch.Status) {
	for _, a := range attempts {
		out = append(out, batch.Status{ID: a.ID, Reported: batch.ReportedCommitted})
	}
	return out
}

func alwaysReported(word batch.Reported) func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
	return func(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, _ error) {
		for _, a := range attempts {
			out = append(out, batch.Status{ID: a.ID, Reported: word})
		}
		return out, nil
	}
}

// start runs a monitor as the Runner does.
func (w *monitorTest) start(t *testing.T, change func(*ask.Options)) (*ask.Monitor, context.CancelFunc) {
	o := ask.Options{
		Rules: rules, Connections: 4, RequestTimeout: timeout, RowsPerRead: 100,
		Trouble: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles = append(w.troubles, err)
		},
	}
	if change != nil {
		change(&o)
	}
	var m *ask.Monitor
	w.table = inhand.New(inhand.Options{
		Rules: inhand.Rules{FirstPoll: o.Rules.FirstPoll, PollInterval: o.Rules.PollInterval, MaxHold: time.Second},
		TTL:   o.Rules.TTL, Traits: w.Traits,
		MayWait: func(store.Outcome) bool { return w.acceptancesMayWait },
		Write:   func(first store.Outcome, rest ...store.Outcome) { w.Put(append([]store.Outcome{first}, rest...)) },
		Lanes:   lanes.New(1),
	})
	m = ask.New(w, w, w.table, o)
	w.dueIn = m.DueIn
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	return m, func() {
		cancel()
		<-done
	}
}

// askTimes returns the times at which a batch was asked about.
func (w *monitorTest) askTimes(id batch.ID) (at []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queries {
		if slices.Contains(q.ids, id) {
			at = append(at, q.sentAfter)
		}
	}
	return at
}

func (w *monitorTest) selectTimes() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.selects)
}

// writeCount returns how many leases and checks were written.
func (w *monitorTest) writeCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// findings returns "id finding" of each outcome.
func (w *monitorTest) findings() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outcomes {
		out = append(out, fmt.Sprint(o.Key.ID, " ", o.Finding))
	}
	return out
}

// sleepAndWait lets d pass, and waits until all goroutines are idle.
func sleepAndWait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
