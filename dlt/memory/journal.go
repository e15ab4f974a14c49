package memory

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// EntryKind is the kind of an [Entry].
type EntryKind uint8

// The kinds of entries.
const (
	PostStart EntryKind = iota + 1
	PostEnd
	Executed // the batch was executed and is Committed
	Invalid  // the batch was executed, and the ledger decided against it
	Answered // a status query was answered
	Restarted
)

// Entry is an event at the ledger.
type Entry struct {
	Kind     EntryKind
	At       time.Time
	Key      batch.Key
	Attempt  int
	Reported batch.Reported // the reported status; set in Answered
	Err      error          // the submission's error; set in PostEnd
	List     int            // in PostStart and PostEnd: number of batches in the request; 0 means one
}

func (l *Ledger) note(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = time.Now()
	l.executeDue(e.At)
	l.journal = append(l.journal, e)
}

// Journal returns everything that happened so far, in order.
func (l *Ledger) Journal() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.executeDue(time.Now())
	return slices.Clone(l.journal)
}

// Log returns the committed batches of a service, in order. A batch that was executed twice
// appears twice.
func (l *Ledger) Log(s batch.ServiceID) []batch.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.executeDue(time.Now())
	return slices.Clone(l.commitLog[s])
}

// Verify returns the first breach of dltbatch's promises in the journal: a batch committed
// twice, a lane out of the given order (batches of it that were never committed are skipped),
// two POSTs of one batch at a time, or a POST after the answer that the batch is committed.
func (l *Ledger) Verify(order map[batch.ServiceID][]batch.ID) error {
	journal := l.Journal()
	under, done := map[batch.ID]bool{}, map[batch.ID]bool{}
	for _, e := range journal {
		switch e.Kind {
		case PostStart:
			if under[e.Key.ID] {
				return fmt.Errorf("two POSTs of %s at a time, the later as attempt %d", e.Key, e.Attempt)
			}
			if done[e.Key.ID] {
				return fmt.Errorf("attempt %d of %s after the answer that it is committed", e.Attempt, e.Key)
			}
			under[e.Key.ID] = true
		case PostEnd:
			under[e.Key.ID] = false
		case Answered:
			done[e.Key.ID] = done[e.Key.ID] || e.Reported == batch.ReportedCommitted
		}
	}
	for service, want := range order {
		place := map[batch.ID]int{}
		for i, id := range want {
			place[id] = i + 1
		}
		last, seen := 0, map[batch.ID]bool{}
		for _, id := range l.Log(service) {
			switch p := place[id]; {
			case seen[id]:
				return fmt.Errorf("%s/%s executed twice", service, id)
			case p == 0:
				return fmt.Errorf("%s/%s was never added", service, id)
			case p < last:
				return fmt.Errorf("%s/%s executed after %s", service, id, want[last-1])
			default:
				last = p
			}
			seen[id] = true
		}
	}
	return nil
}
