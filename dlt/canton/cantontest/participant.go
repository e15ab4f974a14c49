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
	options   Options
	front     simnode.Front
	sockets   openSockets
	closeOnce sync.Once
	closed    chan struct{}

	mu             sync.Mutex
	ledgerEnd      int64 // the offset of the ledger's end
	prunedUpTo     int64
	completionLog  []completionRecord // sorted by offset
	acceptances    map[changeID][]acceptance
	inFlight       []*submission // sorted by completion time
	notArrived     []*submission // sent and not arrived yet, in the order of arrival
	balances       map[string]int64
	isArchived     map[string]bool
	journal        []Entry
	triesByCommand map[string]int
	drawFaultFunc  func(RequestPoint) Fault
	changed        chan struct{} // closed, and replaced, with each new record
}

// changeID identifies a change for deduplication: a user, a set of parties, and a command
// (docs/ledgers/canton.md#deduplication).
type changeID struct{ user, parties, command string }

// acceptance is a successful completion of a change.
type acceptance struct {
	offset       int64
	acceptedAt   time.Time
	submissionID string
}

// submission is one attempt.
type submission struct {
	changeID    changeID
	id          string
	actAs       []string
	transfers   []Transfer
	period      deduplicationPeriod
	dueAt       time.Time // when it completes, or arrives
	fault       Fault
	duplicateOf *acceptance // the earlier acceptance, if this submission completes as its duplicate
}

// deduplicationPeriod is a deduplication period: a duration, or an offset (exclusive).
type deduplicationPeriod struct {
	duration   time.Duration
	offset     int64
	isByOffset bool
}

// completionRecord is a completion as the participant stores it.
type completionRecord struct {
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
		options: c, closed: make(chan struct{}), drawFaultFunc: c.Fault, ledgerEnd: 10,
		acceptances: map[changeID][]acceptance{}, balances: map[string]int64{}, isArchived: map[string]bool{}, triesByCommand: map[string]int{}, changed: make(chan struct{}),
		sockets: openSockets{conns: map[*websocket.Conn]struct{}{}},
	}, nil
}

// doWhatIsDue does everything that is due, arrivals and completions, in the order of their times.
// The caller holds the lock.
func (p *Participant) doWhatIsDue(now time.Time) {
	for {
		wire := len(p.notArrived) > 0 && !p.notArrived[0].dueAt.After(now)
		complete := len(p.inFlight) > 0 && !p.inFlight[0].dueAt.After(now)
		switch {
		case wire && (!complete || p.notArrived[0].dueAt.Before(p.inFlight[0].dueAt)):
			s := p.notArrived[0]
			p.notArrived = p.notArrived[1:]
			p.accept(s, s.dueAt) // nobody reads the answer
		case complete:
			s := p.inFlight[0]
			p.inFlight = p.inFlight[1:]
			p.complete(s, s.dueAt)
		default:
			return
		}
	}
}

// nextDue returns the time when something is due next. It returns false if there is nothing.
func (p *Participant) nextDue() (time.Time, bool) {
	var dueAt time.Time
	for _, list := range [...][]*submission{p.inFlight, p.notArrived} {
		if len(list) > 0 && (dueAt.IsZero() || list[0].dueAt.Before(dueAt)) {
			dueAt = list[0].dueAt
		}
	}
	return dueAt, !dueAt.IsZero()
}

func insertByTime(list []*submission, s *submission) []*submission {
	i, _ := slices.BinarySearchFunc(list, s, func(x, y *submission) int {
		if x.dueAt.After(y.dueAt) {
			return 1
		}
		return -1 // after the others of the same time
	})
	return slices.Insert(list, i, s)
}

// accept adds a submission to those in flight, or returns the refusal
// (docs/ledgers/canton.md#deduplication).
func (p *Participant) accept(s *submission, now time.Time) *refusalError {
	for _, f := range p.inFlight {
		if f.changeID == s.changeID {
			return p.noteRefusal(s, refusalError{id: "SUBMISSION_ALREADY_IN_FLIGHT", cause: "The submission is already in flight",
				context: map[string]string{"changeId": s.changeID.text(), "existingSubmissionId": f.id}})
		}
	}
	for _, a := range p.acceptances[s.changeID] {
		if !s.period.covers(a, now) {
			continue
		}
		if p.options.DuplicateCompletes {
			s.duplicateOf = &a
			break
		}
		return p.noteRefusal(s, duplicateError(s, a))
	}
	s.dueAt = now.Add(p.options.CompleteAfter)
	if s.fault.CompleteAfter > 0 {
		s.dueAt = now.Add(s.fault.CompleteAfter)
	}
	p.note(s.entry(Accepted))
	p.inFlight = insertByTime(p.inFlight, s)
	p.wake()
	return nil
}

func duplicateError(s *submission, a acceptance) refusalError {
	return refusalError{id: "DUPLICATE_COMMAND", cause: "A command with the given command id has already been successfully processed",
		context: map[string]string{
			"changeId": s.changeID.text(), "completion_offset": strconv.FormatInt(a.offset, 10), "existing_submission_id": a.submissionID,
		}}
}

func (p *Participant) noteRefusal(s *submission, r refusalError) *refusalError {
	e := s.entry(Refused)
	e.Error = r.id
	p.note(e)
	return &r
}

func (d deduplicationPeriod) covers(a acceptance, now time.Time) bool {
	if d.isByOffset {
		return a.offset > d.offset
	}
	return now.Sub(a.acceptedAt) <= d.duration
}

func (c changeID) text() string { return c.user + "/" + c.parties + "/" + c.command }

func (s *submission) entry(kind EntryKind) Entry {
	return Entry{Kind: kind, User: s.changeID.user, Party: s.actAs[0], CommandID: s.changeID.command, SubmissionID: s.id, Transfers: s.transfers}
}

// complete completes a submission: it takes effect, is rejected, or is forgotten.
func (p *Participant) complete(s *submission, now time.Time) {
	if s.fault.Lose {
		p.note(s.entry(Forgotten))
		return
	}
	var r *refusalError
	switch {
	case s.duplicateOf != nil:
		d := duplicateError(s, *s.duplicateOf)
		r = &d
	case s.fault.Reject != "":
		r = &refusalError{id: s.fault.Reject, cause: "injected", definiteAnswer: s.fault.Definite}
	default:
		r = p.execute(s)
	}
	p.ledgerEnd += p.options.OffsetStep
	e := s.entry(Executed)
	status, update := map[string]any{"code": 0, "message": "", "details": []any{}}, fmt.Sprintf("1220%060x", p.ledgerEnd)
	if r != nil {
		e.Kind, e.Error = Rejected, r.id
		status, update = r.completionStatus(p.options.OldDetails), ""
	} else {
		p.acceptances[s.changeID] = append(p.acceptances[s.changeID], acceptance{offset: p.ledgerEnd, acceptedAt: now, submissionID: s.id})
	}
	e.Offset = p.ledgerEnd
	p.note(e)
	doc := map[string]any{
		"commandId": s.changeID.command, "status": status, "updateId": update, "userId": s.changeID.user, "actAs": s.actAs,
		"submissionId": s.id, "deduplicationPeriod": map[string]any{"Empty": map[string]any{}},
		"traceContext": nil, "offset": p.ledgerEnd, "paidTrafficCost": 0,
		"synchronizerTime": map[string]any{"synchronizerId": "sim::1220", "recordTime": now.UTC().Format(time.RFC3339Nano)},
	}
	p.completionLog = append(p.completionLog, completionRecord{offset: p.ledgerEnd, user: s.changeID.user, actAs: s.actAs, doc: doc})
	p.wake()
}

// execute executes the transfers of a submission, all or none.
func (p *Participant) execute(s *submission) *refusalError {
	changes := map[string]int64{}
	from := s.actAs[0]
	for _, t := range s.transfers {
		if t.Poison == PoisonAsync {
			return &refusalError{id: "INCONSISTENT", cause: "Inconsistent: the transfer was poisoned"}
		}
		if p.isArchived[t.Spends] {
			return &refusalError{id: "LOCAL_VERDICT_INACTIVE_CONTRACTS", cause: "Rejected transaction is referring to inactive contracts"}
		}
		changes[from] -= t.Amount
		changes[t.To] += t.Amount
	}
	for party, change := range changes {
		if p.balanceOf(party)+change < 0 {
			return &refusalError{id: "LOCAL_VERDICT_INACTIVE_CONTRACTS", cause: "Rejected transaction is referring to inactive contracts"}
		}
	}
	for party, change := range changes {
		p.balances[party] = p.balanceOf(party) + change
	}
	for _, t := range s.transfers {
		if t.Spends != "" {
			p.isArchived[t.Spends] = true
		}
	}
	return nil
}

func (p *Participant) balanceOf(party string) int64 {
	if b, known := p.balances[party]; known {
		return b
	}
	return p.options.Balance
}

// Balance returns the balance of a party.
func (p *Participant) Balance(party string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	return p.balanceOf(party)
}

// Balances returns the balances of all parties whose balance ever changed.
func (p *Participant) Balances() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	return maps.Clone(p.balances)
}

// LedgerEnd returns the offset of the ledger's end.
func (p *Participant) LedgerEnd() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	return p.ledgerEnd
}

// Advance moves the ledger's end by n offsets without entries.
func (p *Participant) Advance(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	p.ledgerEnd += n
	p.wake()
}

// Prune removes the completions up to the offset upTo, at most the ledger's end. Deduplication
// still knows their commands.
func (p *Participant) Prune(upTo int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	p.prunedUpTo = max(p.prunedUpTo, min(upTo, p.ledgerEnd))
	p.completionLog = slices.DeleteFunc(p.completionLog, func(r completionRecord) bool { return r.offset <= p.prunedUpTo })
	p.note(Entry{Kind: Pruned, Offset: p.prunedUpTo})
}

// Restart cuts all connections. Submissions in flight go on, and completions stay.
func (p *Participant) Restart() {
	p.mu.Lock()
	p.doWhatIsDue(time.Now())
	p.note(Entry{Kind: Restarted})
	p.mu.Unlock()
	p.front.Cut()
	p.DropStreams()
}

// Crash is a Restart that forgets the submissions in flight: they never complete.
func (p *Participant) Crash() {
	p.mu.Lock()
	p.doWhatIsDue(time.Now())
	for _, s := range p.inFlight {
		p.note(s.entry(Forgotten))
	}
	p.inFlight = nil
	p.note(Entry{Kind: Restarted})
	p.mu.Unlock()
	p.front.Cut()
	p.DropStreams()
}

// wake wakes all that wait for a new record. The caller holds the lock.
func (p *Participant) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// partySet returns a set of parties as one text.
func partySet(actAs []string) string {
	set := slices.Compact(slices.Sorted(slices.Values(actAs)))
	return strings.Join(set, ",")
}
