package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Options of a [Ledger]. The zero value of every field means its default.
type Options struct {
	// Traits of the ledger. Defaults to [Unforgiving]: it executes duplicates and can give
	// evidence.
	Traits *dlt.Traits
	// Latency is how long every request takes. Defaults to 0.
	Latency time.Duration
	// CommitAfter is the time from arrival to execution. Defaults to 0.
	CommitAfter time.Duration
	// IgnoreDuplicates makes the ledger work like Sawtooth: it never executes a committed
	// batch again, and ignores the same batch for CacheTime after its last try.
	IgnoreDuplicates bool
	// CacheTime is how long IgnoreDuplicates ignores a batch after its last try. Defaults to 1200
	// s.
	CacheTime time.Duration
	// DeduplicateFor makes the ledger work like Canton: it is how long after the commit of a batch
	// the ledger executes no duplicate. Defaults to 0: duplicates are executed.
	DeduplicateFor time.Duration
	// NameAttempts makes each answer name the last attempt that the ledger knows of the batch.
	// Only then can [Fault].FailFirst report that an attempt had no effect.
	NameAttempts bool
	// Endpoint is the name of the node in the ledger's answers. Defaults to none.
	Endpoint string
	// EarlierVerdicts, with NameAttempts, makes the ledger answer with its decision against the
	// previous attempt, rather than with Pending, while the next attempt is on its way. Canton
	// does so.
	EarlierVerdicts bool
	// History makes the ledger forget as Scabbard does: for each service it answers only about the
	// last History batches, in the order in which it first received them, in any state. After a
	// restart it answers about no batch from before. Defaults to 0: it remembers all committed
	// batches.
	History int
	// Fault decides the fault of an attempt. Defaults to none.
	Fault func(a batch.Attempt) Fault
}

// Unforgiving returns the traits of a ledger that executes duplicates, accepts requests up to
// lateArrival after their connection ended, and can prove the outcomes of attempts from its log.
func Unforgiving(lateArrival time.Duration) dlt.Traits {
	return dlt.Traits{
		Name: "memory", LateArrival: lateArrival, Grace: lateArrival, Settle: 0, KeepsOrder: true,
		MaxIDsPerQuery: 100, GroupsByService: true, PressureScope: dlt.ScopeService, Resolves: true,
	}
}

// Ledger is a [dlt.Ledger] in memory. All methods may be called concurrently.
type Ledger struct {
	dlt.Unimplemented // for Prepare, Events and Check

	options Options
	traits  dlt.Traits

	mu        sync.Mutex
	arrivals  []arrival // accepted requests that are not executed yet, in the order of executeAt
	batches   map[batch.ID]*batchRecord
	commitLog map[batch.ServiceID][]batch.ID // the ids of committed batches, in the order of execution
	knownIDs  map[batch.ServiceID][]batch.ID // ids in the order of their first arrival; only with Options.History
	journal   []Entry
}

// arrival is a request on its way through the ledger.
type arrival struct {
	arrivesAt time.Time // when it reaches the ledger
	executeAt time.Time // when it is executed
	attempt   batch.Attempt
	fault     Fault
	isSeen    bool // true if it was added to the history
}

// batchRecord is the ledger's memory of a batch.
type batchRecord struct {
	reported    batch.Reported // 0 means forgotten
	message     string
	attempt     int
	lastTriedAt time.Time // the last time that the batch was tried, for IgnoreDuplicates
	isCached    bool
	committedAt time.Time // when the request arrived that was committed first; zero if none was
}

// New returns an empty ledger.
func New(o *Options) *Ledger {
	l := &Ledger{batches: map[batch.ID]*batchRecord{}, commitLog: map[batch.ServiceID][]batch.ID{}, knownIDs: map[batch.ServiceID][]batch.ID{}}
	if o != nil {
		l.options = *o
	}
	if l.options.CacheTime == 0 {
		l.options.CacheTime = 1200 * time.Second
	}
	l.traits = Unforgiving(time.Second)
	if l.options.Traits != nil {
		l.traits = *l.options.Traits
	}
	return l
}

// Traits returns the same traits for every service.
func (l *Ledger) Traits(batch.ServiceID) dlt.Traits { return l.traits }

// errConnectionLost is the cause of doubt that a fault makes.
var errConnectionLost = errors.New("connection lost")

func faultError(kind error, message string) error {
	return &dlt.Error{Op: "submit", Kind: kind, Message: message}
}

// Submit makes one attempt, with the fault that Options.Fault gives.
func (l *Ledger) Submit(ctx context.Context, a batch.Attempt) error {
	var f Fault
	if l.options.Fault != nil {
		f = l.options.Fault(a)
	}
	l.note(Entry{Kind: PostStart, Key: a.Key, Attempt: a.Number})
	err := l.submitAll(ctx, []batch.Attempt{a}, []Fault{f})
	l.note(Entry{Kind: PostEnd, Key: a.Key, Attempt: a.Number, Err: err})
	return err
}

func (l *Ledger) submitAll(ctx context.Context, list []batch.Attempt, faults []Fault) error {
	f := faults[0]
	take := func(d time.Duration) {
		for i, a := range list {
			l.accept(a, faults[i], d)
		}
	}
	if err := sleep(ctx, l.options.Latency+f.Latency); err != nil && f.Kind != LostReply {
		return fmt.Errorf("submit: %w", err) // the ledger has not accepted anything
	}
	switch f.Kind {
	case Busy:
		return faultError(dlt.ErrBusy, "full")
	case Unavailable:
		return faultError(dlt.ErrUnavailable, "refused")
	case Misconfigured:
		return faultError(dlt.ErrMisconfigured, "who are you")
	case Rejected:
		return faultError(dlt.ErrRejected, "refused by policy")
	case NotYet:
		return faultError(dlt.ErrNotYet, "not its turn")
	case LostRequest:
		return &dlt.Error{Op: "submit", Err: errConnectionLost}
	case LostReply:
		take(0)
		return &dlt.Error{Op: "submit", Err: errConnectionLost}
	case Late:
		take(f.Delay)
		return &dlt.Error{Op: "submit", Err: errConnectionLost}
	case Hang:
		<-ctx.Done()
		return fmt.Errorf("submit: %w", ctx.Err())
	case HangAccepted:
		take(0)
		<-ctx.Done()
		return fmt.Errorf("submit: %w", ctx.Err())
	}
	for i, a := range list {
		if strings.HasPrefix(string(a.Payload), "reject") || faults[i].Kind == Rejected {
			return faultError(dlt.ErrRejected, "refused")
		}
	}
	take(0)
	return nil
}

// SubmitList makes one attempt of each batch. Like Sawtooth it accepts a list as a whole: the
// Fault of the first hits all of them, and one refused batch refuses the list. It is for
// ledgers whose traits have a MaxList.
func (l *Ledger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	faults := make([]Fault, len(list))
	for i, a := range list {
		if l.options.Fault != nil {
			faults[i] = l.options.Fault(a)
		}
		l.note(Entry{Kind: PostStart, Key: a.Key, Attempt: a.Number, List: len(list)})
	}
	err := l.submitAll(ctx, list, faults)
	for _, a := range list {
		l.note(Entry{Kind: PostEnd, Key: a.Key, Attempt: a.Number, List: len(list), Err: err})
	}
	return err
}

// accept makes a request arrive after d.
func (l *Ledger) accept(a batch.Attempt, f Fault, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Payload = slices.Clone(a.Payload)
	at := time.Now().Add(d)
	n := arrival{arrivesAt: at, executeAt: at.Add(l.options.CommitAfter), attempt: a, fault: f}
	i, _ := slices.BinarySearchFunc(l.arrivals, n, func(x, y arrival) int {
		if c := x.executeAt.Compare(y.executeAt); c != 0 {
			return c
		}
		return -1 // after the other arrivals of the same time
	})
	l.arrivals = slices.Insert(l.arrivals, i, n)
	l.executeDue(time.Now())
}

// executeDue executes the arrivals that are due.
func (l *Ledger) executeDue(now time.Time) {
	l.recordSeen(now)
	for len(l.arrivals) > 0 && !l.arrivals[0].executeAt.After(now) {
		n := l.arrivals[0]
		l.arrivals = l.arrivals[1:]
		l.execute(n)
	}
}

// recordSeen adds the requests that have arrived to the history.
func (l *Ledger) recordSeen(now time.Time) {
	if l.options.History == 0 {
		return
	}
	for {
		next := -1
		for i, n := range l.arrivals {
			if !n.isSeen && !n.arrivesAt.After(now) && (next < 0 || n.arrivesAt.Before(l.arrivals[next].arrivesAt)) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		l.arrivals[next].isSeen = true
		a := l.arrivals[next].attempt
		known := l.knownIDs[a.Service]
		if !slices.Contains(known, a.ID) {
			known = append(known, a.ID)
			l.knownIDs[a.Service] = known[max(0, len(known)-l.options.History):]
		}
	}
}

// remembers reports whether the ledger still answers about a batch.
func (l *Ledger) remembers(key batch.Key) bool {
	return l.options.History == 0 || slices.Contains(l.knownIDs[key.Service], key.ID)
}

func (l *Ledger) execute(n arrival) {
	k := l.batches[n.attempt.ID]
	if k == nil {
		k = &batchRecord{}
		l.batches[n.attempt.ID] = k
	}
	if l.options.IgnoreDuplicates {
		fresh := !k.isCached || n.arrivesAt.Sub(k.lastTriedAt) >= l.options.CacheTime
		k.lastTriedAt, k.isCached = n.arrivesAt, true
		if !k.committedAt.IsZero() {
			k.reported = batch.ReportedCommitted
			return
		}
		if !fresh && !n.fault.executesTwice {
			return
		}
	}
	if !k.committedAt.IsZero() && n.arrivesAt.Sub(k.committedAt) < l.options.DeduplicateFor {
		k.reported = batch.ReportedCommitted
		return
	}
	k.attempt = n.attempt.Number
	if n.fault.FailFirst && l.options.NameAttempts {
		k.reported, k.message = batch.ReportedFailed, "no effect this time"
		return
	}
	e := Entry{Kind: Executed, Key: n.attempt.Key, Attempt: n.attempt.Number, At: n.executeAt}
	if strings.HasPrefix(string(n.attempt.Payload), "invalid") || n.fault.DecideAgainst || (n.fault.InvalidFirst && !n.fault.executesTwice) {
		k.reported, k.message = batch.ReportedInvalid, "decided against"
		e.Kind = Invalid
		l.journal = append(l.journal, e)
		if n.fault.InvalidFirst { // the next block executes the batch again, and commits it
			n.fault.executesTwice = true
			n.executeAt = n.executeAt.Add(n.fault.Delay)
			l.arrivals = append(l.arrivals, n)
			slices.SortStableFunc(l.arrivals, func(x, y arrival) int { return x.executeAt.Compare(y.executeAt) })
		}
		return
	}
	k.reported, k.committedAt = batch.ReportedCommitted, n.arrivesAt
	l.commitLog[n.attempt.Service] = append(l.commitLog[n.attempt.Service], n.attempt.ID)
	l.journal = append(l.journal, e)
}

// BatchStatuses answers at once after Latency.
func (l *Ledger) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	if err := sleep(ctx, l.options.Latency); err != nil {
		return nil, fmt.Errorf("batch statuses: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.executeDue(now)
	out := make([]batch.Status, 0, len(attempts))
	for _, a := range attempts {
		st := batch.Status{ID: a.ID, Reported: batch.ReportedUnknown, Endpoint: l.options.Endpoint}
		if k := l.batches[a.ID]; k != nil && k.reported != 0 && l.remembers(a.Key) {
			st.Reported, st.Message = k.reported, k.message
			if l.options.NameAttempts {
				st.Attempt = k.attempt
			}
		}
		earlier := l.options.EarlierVerdicts && st.Reported == batch.ReportedInvalid
		if !earlier && (st.Reported != batch.ReportedCommitted || !l.options.IgnoreDuplicates) {
			for _, n := range l.arrivals { // while a second copy is on its way, the batch is pending again
				if n.attempt.ID == a.ID && l.remembers(a.Key) && !n.arrivesAt.After(now) && !n.fault.executesTwice {
					st.Reported, st.Message, st.Attempt = batch.ReportedPending, "", 0
				}
			}
		}
		l.journal = append(l.journal, Entry{Kind: Answered, Key: a.Key, Attempt: a.Number, At: now, Reported: st.Reported})
		out = append(out, st)
	}
	// Answers are matched by id, so their order does not matter. They are not in the query's
	// order.
	slices.Reverse(out)
	return out, nil
}

// Resolve reads the log, which survives restarts.
func (l *Ledger) Resolve(ctx context.Context, a dlt.Doubt) (dlt.Evidence, error) {
	if err := sleep(ctx, l.options.Latency); err != nil {
		return dlt.CannotTell, fmt.Errorf("resolve: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.executeDue(now)
	if k := l.batches[a.ID]; k != nil && !k.committedAt.IsZero() {
		l.journal = append(l.journal, Entry{Kind: Answered, Key: a.Key, At: now, Reported: batch.ReportedCommitted})
		return dlt.Committed, nil
	}
	for _, n := range l.arrivals {
		if n.attempt.ID == a.ID && !n.arrivesAt.After(now) {
			return dlt.InFlight, nil
		}
	}
	return dlt.NotCommitted, nil
}

// Restart makes the ledger lose the accepted requests that are not executed, and all statuses
// except committed ones under IgnoreDuplicates. Requests that are still on their way arrive, and
// Resolve still knows commits.
func (l *Ledger) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.executeDue(now)
	clear(l.knownIDs)
	l.arrivals = slices.DeleteFunc(l.arrivals, func(n arrival) bool { return !n.arrivesAt.After(now) })
	for _, k := range l.batches {
		k.isCached = false
		k.reported = 0
		if l.options.IgnoreDuplicates && !k.committedAt.IsZero() {
			k.reported = batch.ReportedCommitted // the ledger's chain survives a restart
		}
	}
	l.journal = append(l.journal, Entry{Kind: Restarted, At: now})
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
