package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// The walk's times, in minutes where no unit is given.
const (
	walkTTL     = 3
	walkMargin  = 1
	walkRequest = 1
	walkStuck   = 5
	walkFreeze  = walkTTL + 1
	walkWindow  = 8
	clockStep   = 20 // longer than any batch may stand
)

// setup is one kind of ledger with one strategy.
type setup struct {
	name     string
	traits   dlt.Traits
	ignores  bool // a batch that it has is not executed again, ever
	window   bool // nor for walkWindow after it came
	strategy queuer.Strategy
}

func (u setup) keeps() bool { return u.traits.KeepsOrder }

// walker makes the steps of one setup.
type walker struct {
	setup
	choose store.Choose
	sub    submitter.Rules
	mon    monitor.Rules
	broken error // of the step that is being made
	most   int8  // faults in one walk
	named  bool  // steps have names: only a walk that is shown pays for them
}

func newWalker(u setup) *walker {
	w := &walker{setup: u}
	delay := func(batch.ServiceID, int) time.Duration { return minute }
	w.sub = submitter.Rules{FirstCheck: minute, Delay: delay, StuckAfter: walkStuck * minute}
	w.mon = monitor.Rules{TTL: walkTTL * minute, FirstPoll: minute, PollInterval: minute, StuckAfter: walkStuck * minute, Delay: delay, Reliant: u.strategy.ReliesOnOrder}
	keeps := func(batch.ServiceID) bool { return u.keeps() }
	w.choose = queuer.Choose(u.strategy, keeps, func(_ batch.ServiceID, err error) { w.fail("the strategy: %w", err) })
	return w
}

func (w *walker) fail(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

func (w *walker) say(format string, args ...any) string {
	if !w.named {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func walkID(b int8) batch.ID { return batch.ID([]string{"b0", "b1"}[b]) }

func walkRef(b int8) store.Ref {
	return store.Ref{Key: batch.Key{Service: "s", ID: walkID(b)}, Row: int64(b) + 1, Created: walkNow().Add(-1000*time.Hour + time.Duration(b))}
}

// start is the state in which both batches wait.
func start() state {
	var s state
	for b := range s.rows {
		s.rows[b] = pack(store.NewRow())
	}
	for p := range s.procs {
		s.procs[p] = newProc()
	}
	return s
}

func newProc() proc {
	return proc{up: true, run: [2]int8{-1, -1}, asks: -1, seen: [2]int8{-1, -1}}
}

// steps calls yield with each step that is possible in a state. Time passes only if no process has
// anything to do at once: a process that is late is a frozen one.
func (w *walker) steps(s state, yield func(name string, next state)) {
	busy := false
	for p := range int8(2) {
		if q := &s.procs[p]; q.up && q.frozen == 0 {
			busy = w.claim(s, p, yield) || busy
			busy = w.deliver(s, p, yield) || busy
			busy = w.ask(s, p, yield) || busy
			busy = w.record(s, p, yield) || busy
		}
	}
	for i := range s.wire {
		if q := s.wire[i]; q.on {
			w.arrive(s, i, yield)
			busy = busy || !q.late
		}
	}
	w.execute(s, yield)
	w.fault(s, yield)
	if !busy {
		next := s
		w.tick(&next)
		yield("a minute passes", next)
	}
}

// write puts a row in place of another, which makes all copies of it old.
func (w *walker) write(s *state, b int8, r store.Row) {
	was := s.rows[b]
	s.rows[b] = pack(r)
	for p := range s.procs {
		q := &s.procs[p]
		q.current[b] = false
		q.seen[b] = -1
		if q.asks == b {
			q.asked = false
		}
	}
	w.moved(s, b, was)
}

func (w *walker) claim(s state, p int8, yield func(string, state)) bool {
	if s.procs[p].phase != resting {
		return false
	}
	var rows []store.LaneRow
	waiting := 0
	for b := range int8(2) {
		r := s.rows[b].row()
		if r.Final() {
			continue
		}
		if !r.Attempted() {
			if waiting == w.strategy.Window {
				continue
			}
			waiting++
		}
		rows = append(rows, store.LaneRow{Ref: walkRef(b), Row: r})
	}
	slices.SortStableFunc(rows, func(a, b store.LaneRow) int { return a.Created.Compare(b.Created) })
	q := store.ClaimQuery{
		Limit: 2, Window: w.strategy.Window, TTL: walkTTL * minute, StuckAfter: walkStuck * minute,
		Resend: func(batch.ServiceID) store.Resend {
			return store.Resend{HarmlessFor: w.traits.ResendHarmlessFor, LateArrival: w.traits.LateArrival}
		},
	}
	from := [2]int8{s.rows[0].state, s.rows[1].state}
	plan := store.PlanLane("s", rows, walkNow(), q, 2, w.choose)
	if len(plan.Changed) == 0 {
		return false
	}
	for _, r := range plan.Changed {
		w.write(&s, int8(r.Ref.Row-1), r.Row)
	}
	name := "the claim gives it back to the monitor"
	for _, run := range plan.Runs {
		q := &s.procs[p]
		q.phase, q.at, q.until, q.run, q.from = claimed, 0, walkTTL-walkMargin, [2]int8{-1, -1}, from
		for i, c := range run.Batches {
			b := int8(c.Ref.Row - 1)
			q.run[i], q.current[b] = b, true
		}
		name = w.say("p%d claims %v", p, q.run)
	}
	yield(name, s)
	return true
}

// deliver goes on with a claim: posts, records the answer, or puts back what is not posted.
func (w *walker) deliver(s state, p int8, yield func(string, state)) bool {
	q := &s.procs[p]
	switch q.phase {
	case claimed:
		b := q.run[q.at]
		if q.until < walkRequest {
			q.phase = leaving
			yield(w.say("p%d is too late to post b%d", p, b), s)
			return true
		}
		i := slices.IndexFunc(s.wire[:], func(r request) bool { return !r.on })
		if i < 0 {
			return false // so many requests on the wire are not walked
		}
		for _, r := range s.wire {
			if r.on && r.by >= 0 && r.batch == b {
				w.fail("promise 4: two POSTs of b%d at a time", b)
			}
		}
		s.wire[i] = request{on: true, batch: b, attempt: s.rows[b].attempt, by: p}
		q.phase = posting
		yield(w.say("p%d posts b%d", p, b), s)
		return true
	case answered:
		b := q.run[q.at]
		o := submitter.Judge(w.claimOf(&s, p, b), answerError(q.answer), true, w.sub)
		more := q.at+1 < 2 && q.run[q.at+1] >= 0
		w.apply(&s, b, o, q.current[b])
		q = &s.procs[p]
		switch {
		case more && q.answer == saysAccepted:
			q.phase, q.at = claimed, q.at+1
		case more:
			q.phase, q.at = leaving, q.at+1
		default:
			q.phase, q.run = resting, [2]int8{-1, -1}
		}
		yield(w.say("p%d records %s of b%d", p, o.Finding, b), s)
		return true
	case leaving:
		for ; q.at < 2 && q.run[q.at] >= 0; q.at++ {
			b := q.run[q.at]
			w.apply(&s, b, submitter.Unposted(w.claimOf(&s, p, b)), q.current[b])
		}
		q.phase, q.run, q.at = resting, [2]int8{-1, -1}, 0
		yield(w.say("p%d puts back", p), s)
		return true
	}
	return false
}

// claimOf is the claim that a process holds of a batch. The row has not moved on, or the outcome
// is fenced whatever it says.
func (w *walker) claimOf(s *state, p, b int8) store.Claim {
	r := s.rows[b]
	return store.Claim{Ref: walkRef(b), From: batch.States()[s.procs[p].from[b]], Attempt: int(r.attempt), Failures: int(r.failures)}
}

var errUnknownWord = errors.New("a word that nobody knows")

func answerError(a int8) error {
	kinds := map[int8]error{
		saysBusy: dlt.ErrBusy, saysUnavailable: dlt.ErrUnavailable, saysRejected: dlt.ErrRejected,
		saysMisconfigured: dlt.ErrMisconfigured, saysNotYet: dlt.ErrNotYet,
	}
	switch {
	case a == saysAccepted:
		return nil
	case kinds[a] != nil:
		return &dlt.Error{Op: "submit", Kind: kinds[a]}
	}
	return &dlt.Error{Op: "submit", Err: errUnknownWord}
}

// apply writes an outcome that was decided on the row as it is now (current), or on an older one.
func (w *walker) apply(s *state, b int8, o store.Outcome, current bool) store.Result {
	r := s.rows[b].row()
	if o.Version = r.Version; !current {
		o.Version--
	}
	next, res := r.Apply(o, walkNow())
	switch res.Result {
	case store.Bad:
		if !errors.Is(res.Err, batch.ErrNotAllowed) || s.faults == 0 {
			w.fail("bad outcome: %w", res.Err)
		}
	case store.Written:
		if !current && o.Finding != store.IsCommitted {
			w.fail("promise 5: an outcome that was decided on an older row is written")
		}
		w.call(s, b, res)
		w.write(s, b, next)
	}
	return res.Result
}

// ask asks the ledger about a due row, with each answer that the ledger may give.
func (w *walker) ask(s state, p int8, yield func(string, state)) bool {
	asks := s.procs[p].asks >= 0
	if asks && !s.procs[p].held { // a commit that waits for the end of a claim holds up no scan
		return false
	}
	due := false
	for b := range int8(2) {
		r := s.rows[b].row()
		q := store.PendingQuery{Lease: minute, Ahead: walkAhead}
		if r.Final() || r.State.Claimable() || !q.Due(r, walkNow()) || asks && r.Monitored(walkNow()) {
			continue
		}
		due = true
		read, leased := s, r.Leased(walkNow(), q.Lease)
		if leased.Version != r.Version {
			w.write(&read, b, leased)
		}
		read.rows[b] = pack(leased)
		if !leased.Monitored(walkNow()) {
			yield(w.say("p%d puts the times of b%d right", p, b), read)
			continue
		}
		k := &read.procs[p]
		k.asks, k.asked, k.held, k.ago, k.own = b, true, false, 0, 0
		k.seen[b] = max(k.seen[b], 0)
		w.statuses(read, b, func(status int8, name string, faults int8) {
			if !w.may(&s, faults) {
				return
			}
			next := read
			next.faults += faults
			next.procs[p].status, next.procs[p].evidence = status, noEvidence
			if !w.verdict(&next, p).Resolve {
				yield(w.say("p%d asks about b%d: %s", p, b, name), next)
				return
			}
			w.evidence(next, b, func(e int8, what string, faults int8) {
				if !w.may(&next, faults) {
					return
				}
				last := next
				last.faults += faults
				last.procs[p].evidence = e
				yield(w.say("p%d asks about b%d: %s, and the evidence is %s", p, b, name, what), last)
			})
		})
	}
	return due
}

const (
	walkAhead  = 5 * minute
	noEvidence = -1
	noStatus   = -1
)

// statuses are the answers that the ledger may give about a batch, with the faults that each
// takes.
func (w *walker) statuses(s state, b int8, yield func(status int8, name string, faults int8)) {
	l := &s.ledger
	say := func(r batch.Reported, faults int8) { yield(int8(r), r.String(), faults) }
	switch {
	case l.mode == nonsense || l.mode == unreachable:
		yield(noStatus, "no answer", 0)
		return
	case l.execs[b] > 0 && l.shown[b]:
		say(batch.ReportedCommitted, 0)
	case l.invalid[b]:
		say(batch.ReportedInvalid, 0)
	case l.pool[b] > 0:
		say(batch.ReportedPending, 0)
		if w.traits.Grace > 0 {
			say(batch.ReportedUnknown, 1)
		}
	default:
		say(batch.ReportedUnknown, 0)
	}
	yield(noStatus, "no answer", 1)
}

// evidence is what the resolver may find out: the truth about what has arrived, or that it cannot
// tell.
func (w *walker) evidence(s state, b int8, yield func(e int8, name string, faults int8)) {
	l := &s.ledger
	e := dlt.NotCommitted
	switch {
	case l.execs[b] > 0:
		e = dlt.Committed
	case l.pool[b] > 0:
		e = dlt.InFlight
	}
	yield(int8(e), e.String(), 0)
	yield(int8(dlt.CannotTell), dlt.CannotTell.String(), 1)
}

// verdict decides about the row that a process asks about, by its copy: where the row has moved on
// meanwhile the outcome is fenced, whatever it says.
func (w *walker) verdict(s *state, p int8) monitor.Verdict {
	q := &s.procs[p]
	r := s.rows[q.asks].row()
	f := r.InFlight(walkRef(q.asks), batch.Budget{}, walkNow().Add(-time.Duration(q.ago)*minute))
	known := monitor.Known{Seen: time.Duration(max(0, q.seen[q.asks]-q.own)) * minute}
	if q.status != noStatus {
		known.Status = &batch.Status{Reported: batch.Reported(q.status), Endpoint: walkEndpoint}
		if w.window {
			known.Status.Attempt = r.Attempt
		}
	}
	if q.evidence != noEvidence {
		e := dlt.Evidence(q.evidence)
		known.Evidence = &e
	}
	return monitor.Decide(f, known, w.traits, w.mon)
}

// record writes what a question has shown.
func (w *walker) record(s state, p int8, yield func(string, state)) bool {
	q := &s.procs[p]
	if q.asks < 0 || q.held {
		return false
	}
	b, name := q.asks, "asks again later"
	v := w.verdict(&s, p)
	switch {
	case v.Outcome != nil:
		name = v.Outcome.Finding.String()
		if w.apply(&s, b, *v.Outcome, q.asked) == store.Held {
			s.procs[p].held = true
		} else {
			s.procs[p].asks = -1
		}
	default:
		if r := s.rows[b].row(); r.Monitored(walkNow()) {
			r.NextCheck = walkNow().Add(max(minute, v.Next))
			s.rows[b] = pack(r)
		}
		q.asks = -1
	}
	yield(w.say("p%d records about b%d: %s", p, b, name), s)
	return true
}
