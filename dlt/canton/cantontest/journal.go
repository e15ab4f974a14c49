package cantontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// EntryKind is the kind of an [Entry].
type EntryKind string

// The kinds of entries.
const (
	Posted    EntryKind = "posted"    // a submission reached the participant
	Accepted  EntryKind = "taken"     // the submission was accepted, and is being executed
	Refused   EntryKind = "refused"   // the submission was answered with Error, and not accepted
	Executed  EntryKind = "executed"  // the submission took effect, at Offset
	Rejected  EntryKind = "rejected"  // the submission's completion has Error, and is at Offset
	Forgotten EntryKind = "forgotten" // the submission will never have a completion
	Restarted EntryKind = "restarted"
	Pruned    EntryKind = "pruned" // the participant was pruned up to Offset
)

// Entry is an event at the participant.
type Entry struct {
	Kind         EntryKind
	At           time.Time
	User         string
	Party        string
	CommandID    string
	SubmissionID string
	Offset       int64
	Error        string
	// Transfers of the submission, if they could be read. Must not be changed.
	Transfers []Transfer
}

// note adds an entry. The caller holds the lock.
func (p *Participant) note(e Entry) {
	e.At = time.Now()
	p.journal = append(p.journal, e)
}

// Journal returns everything that happened so far, in order.
func (p *Participant) Journal() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doWhatIsDue(time.Now())
	return slices.Clone(p.journal)
}

// Count returns the number of entries of a kind about a command.
func (p *Participant) Count(kind EntryKind, commandID string) int {
	n := 0
	for _, e := range p.Journal() {
		if e.Kind == kind && e.CommandID == commandID {
			n++
		}
	}
	return n
}

// Check returns the first breach of dltbatch's promises in the journal: a submission that was
// accepted twice, a command that took effect twice, or a party whose commands took effect in
// another order than the given one (commands that never did are skipped).
func (p *Participant) Check(order map[batch.ServiceID][]batch.ID) error {
	place := map[batch.Key]int{}
	for service, ids := range order {
		for i, id := range ids {
			place[batch.Key{Service: service, ID: id}] = i + 1
		}
	}
	taken, done, last := map[string]bool{}, map[batch.Key]bool{}, map[batch.ServiceID]int{}
	for _, e := range p.Journal() {
		k := batch.Key{Service: batch.ServiceID(e.Party), ID: batch.ID(e.CommandID)}
		switch e.Kind {
		case Accepted:
			if taken[e.SubmissionID] {
				return fmt.Errorf("submission %q was taken twice", e.SubmissionID)
			}
			taken[e.SubmissionID] = true
		case Executed:
			if done[k] {
				return fmt.Errorf("%s took effect twice, the second time as %q", k, e.SubmissionID)
			}
			done[k] = true
			if order == nil {
				continue
			}
			at := place[k]
			if at == 0 {
				return fmt.Errorf("%s was never added", k)
			}
			if at < last[k.Service] {
				return fmt.Errorf("%s took effect after %s", k, order[k.Service][last[k.Service]-1])
			}
			last[k.Service] = at
		}
	}
	return nil
}
