package cantontest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// Participant is a Canton participant with a JSON Ledger API. All methods may be
// called concurrently.
type Participant struct {
	o       Options
	front   simnode.Front
	sockets sockets
	once    sync.Once
	closed  chan struct{}

	mu      sync.Mutex
	end     int64 // the ledger's end
	pruned  int64
	log     []record // by offset
	done    map[changeID][]acceptance
	flying  []*submission // by the time of their completion
	late    []*submission // on the wire, by the time of their arrival
	books   map[string]int64
	spent   map[string]bool
	journal []Entry
	tries   map[string]int
	fault   func(Point) Fault
	changed chan struct{} // closed with every record
}

// changeID identifies a change for deduplication: user, set of parties, command
// (docs/ledgers/canton.md#deduplication).
type changeID struct{ user, parties, command string }

// acceptance is an accepted completion of a change.
type acceptance struct {
	offset     int64
	at         time.Time
	submission string
}

// submission is one attempt.
type submission struct {
	change     changeID
	id         string
	actAs      []string
	transfers  []Transfer
	period     period
	due        time.Time // it completes, or arrives
	fault      Fault
	duplicates *acceptance // the submission completes as a duplicate of this
}

// period is a deduplication period: a duration, or an offset (exclusive).
type period struct {
	duration time.Duration
	offset   int64
	byOffset bool
}

// record is a completion.
type record struct {
	offset int64
	user   string
	actAs  []string
	doc    map[string]any
}

// NewParticipant returns a participant that does not listen. [Start] and [Listen] return one
// that does.
func NewParticipant(o *Options) (*Participant, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Participant{
		o: c, closed: make(chan struct{}), fault: c.Fault, end: 10,
		done: map[changeID][]acceptance{}, books: map[string]int64{}, spent: map[string]bool{}, tries: map[string]int{}, changed: make(chan struct{}),
		sockets: sockets{open: map[*websocket.Conn]struct{}{}},
	}, nil
}

// settle does everything that is due: arrivals from the wire and completions, in the order of
// their times. The caller holds the lock.
func (p *Participant) settle(now time.Time) {
	for {
		wire := len(p.late) > 0 && !p.late[0].due.After(now)
		complete := len(p.flying) > 0 && !p.flying[0].due.After(now)
		switch {
		case wire && (!complete || p.late[0].due.Before(p.flying[0].due)):
			s := p.late[0]
			p.late = p.late[1:]
			p.take(s, s.due) // nobody hears the answer
		case complete:
			s := p.flying[0]
			p.flying = p.flying[1:]
			p.complete(s, s.due)
		default:
			return
		}
	}
}

// next returns the time at which something is due.
func (p *Participant) next() (time.Time, bool) {
	var at time.Time
	for _, list := range [...][]*submission{p.flying, p.late} {
		if len(list) > 0 && (at.IsZero() || list[0].due.Before(at)) {
			at = list[0].due
		}
	}
	return at, !at.IsZero()
}

func insert(list []*submission, s *submission) []*submission {
	i, _ := slices.BinarySearchFunc(list, s, func(x, y *submission) int {
		if x.due.After(y.due) {
			return 1
		}
		return -1 // after the others of the same time
	})
	return slices.Insert(list, i, s)
}

// take puts a submission in flight, or returns the refusal
// (docs/ledgers/canton.md#deduplication).
func (p *Participant) take(s *submission, now time.Time) *refusal {
	for _, f := range p.flying {
		if f.change == s.change {
			return p.refuse(s, refusal{id: "SUBMISSION_ALREADY_IN_FLIGHT", cause: "The submission is already in flight",
				context: map[string]string{"changeId": s.change.text(), "existingSubmissionId": f.id}})
		}
	}
	for _, a := range p.done[s.change] {
		if !s.period.covers(a, now) {
			continue
		}
		if p.o.DuplicateCompletes {
			s.duplicates = &a
			break
		}
		return p.refuse(s, duplicateOf(s, a))
	}
	s.due = now.Add(p.o.CompleteAfter)
	if s.fault.CompleteAfter > 0 {
		s.due = now.Add(s.fault.CompleteAfter)
	}
	p.note(s.entry(Taken))
	p.flying = insert(p.flying, s)
	p.wake()
	return nil
}

func duplicateOf(s *submission, a acceptance) refusal {
	return refusal{id: "DUPLICATE_COMMAND", cause: "A command with the given command id has already been successfully processed",
		context: map[string]string{
			"changeId": s.change.text(), "completion_offset": strconv.FormatInt(a.offset, 10), "existing_submission_id": a.submission,
		}}
}

func (p *Participant) refuse(s *submission, r refusal) *refusal {
	e := s.entry(Refused)
	e.Error = r.id
	p.note(e)
	return &r
}

func (d period) covers(a acceptance, now time.Time) bool {
	if d.byOffset {
		return a.offset > d.offset
	}
	return now.Sub(a.at) <= d.duration
}

func (c changeID) text() string { return c.user + "/" + c.parties + "/" + c.command }

func (s *submission) entry(kind EntryKind) Entry {
	return Entry{Kind: kind, User: s.change.user, Party: s.actAs[0], CommandID: s.change.command, SubmissionID: s.id, Transfers: s.transfers}
}

// complete decides on a submission.
func (p *Participant) complete(s *submission, now time.Time) {
	if s.fault.Lose {
		p.note(s.entry(Forgotten))
		return
	}
	var r *refusal
	switch {
	case s.duplicates != nil:
		d := duplicateOf(s, *s.duplicates)
		r = &d
	case s.fault.Reject != "":
		r = &refusal{id: s.fault.Reject, cause: "injected", definite: s.fault.Definite}
	default:
		r = p.execute(s)
	}
	p.end += p.o.OffsetStep
	e := s.entry(Executed)
	status, update := map[string]any{"code": 0, "message": "", "details": []any{}}, fmt.Sprintf("1220%060x", p.end)
	if r != nil {
		e.Kind, e.Error = Rejected, r.id
		status, update = r.status(p.o.OldDetails), ""
	} else {
		p.done[s.change] = append(p.done[s.change], acceptance{offset: p.end, at: now, submission: s.id})
	}
	e.Offset = p.end
	p.note(e)
	doc := map[string]any{
		"commandId": s.change.command, "status": status, "updateId": update, "userId": s.change.user, "actAs": s.actAs,
		"submissionId": s.id, "deduplicationPeriod": map[string]any{"Empty": map[string]any{}},
		"traceContext": nil, "offset": p.end, "paidTrafficCost": 0,
		"synchronizerTime": map[string]any{"synchronizerId": "sim::1220", "recordTime": now.UTC().Format(time.RFC3339Nano)},
	}
	p.log = append(p.log, record{offset: p.end, user: s.change.user, actAs: s.actAs, doc: doc})
	p.wake()
}

// execute moves the money, all or nothing.
func (p *Participant) execute(s *submission) *refusal {
	changes := map[string]int64{}
	from := s.actAs[0]
	for _, t := range s.transfers {
		if t.Poison == PoisonAsync {
			return &refusal{id: "INCONSISTENT", cause: "Inconsistent: the transfer was poisoned"}
		}
		if p.spent[t.Spends] {
			return &refusal{id: "LOCAL_VERDICT_INACTIVE_CONTRACTS", cause: "Rejected transaction is referring to inactive contracts"}
		}
		changes[from] -= t.Amount
		changes[t.To] += t.Amount
	}
	for party, change := range changes {
		if p.balance(party)+change < 0 {
			return &refusal{id: "LOCAL_VERDICT_INACTIVE_CONTRACTS", cause: "Rejected transaction is referring to inactive contracts"}
		}
	}
	for party, change := range changes {
		p.books[party] = p.balance(party) + change
	}
	for _, t := range s.transfers {
		if t.Spends != "" {
			p.spent[t.Spends] = true
		}
	}
	return nil
}

func (p *Participant) balance(party string) int64 {
	if b, known := p.books[party]; known {
		return b
	}
	return p.o.Balance
}

// Balance returns the balance of a party.
func (p *Participant) Balance(party string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(time.Now())
	return p.balance(party)
}

// Books returns the balances that ever changed.
func (p *Participant) Books() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(time.Now())
	return maps.Clone(p.books)
}

// End returns the offset of the ledger's end.
func (p *Participant) End() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(time.Now())
	return p.end
}

// Advance moves the ledger's end by n offsets without entries.
func (p *Participant) Advance(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(time.Now())
	p.end += n
	p.wake()
}

// Prune forgets the completions up to an offset, at most the ledger's end. Deduplication goes
// on.
func (p *Participant) Prune(upTo int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(time.Now())
	p.pruned = max(p.pruned, min(upTo, p.end))
	p.log = slices.DeleteFunc(p.log, func(r record) bool { return r.offset <= p.pruned })
	p.note(Entry{Kind: Pruned, Offset: p.pruned})
}

// Restart cuts all connections. Submissions in flight go on, and completions stay.
func (p *Participant) Restart() {
	p.mu.Lock()
	p.settle(time.Now())
	p.note(Entry{Kind: Restarted})
	p.mu.Unlock()
	p.front.Cut()
	p.DropStreams()
}

// Crash is a Restart that forgets the submissions in flight: they never complete.
func (p *Participant) Crash() {
	p.mu.Lock()
	p.settle(time.Now())
	for _, s := range p.flying {
		p.note(s.entry(Forgotten))
	}
	p.flying = nil
	p.note(Entry{Kind: Restarted})
	p.mu.Unlock()
	p.front.Cut()
	p.DropStreams()
}

// wake wakes all waiters for something new. The caller holds the lock.
func (p *Participant) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// partySet returns the set of parties as one text.
func partySet(actAs []string) string {
	set := slices.Compact(slices.Sorted(slices.Values(actAs)))
	return strings.Join(set, ",")
}
