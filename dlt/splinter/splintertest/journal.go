package splintertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Kind is the kind of a journal entry.
type Kind string

// The kinds of entries.
const (
	PostStart      Kind = "post start"      // a POST of batches came in
	PostEnd        Kind = "post end"        // its answer is about to be written, or its connection ended
	StatusAnswered Kind = "status answered" // a status answer is about to be written; not noted if it repeats the last one about this id
	Accepted       Kind = "accepted"        // marked Pending in the history of the service; Word is late if its client had left
	Executed       Kind = "executed"        // proposed by the service. Word is Committed, Invalid, Rejected (rolled back), Again (a second effect) or Unrecorded (an effect, and the coordinator died)
	Applied        Kind = "applied"         // its effect is in the state of the service; Word is set if it has no receipt
	Dropped        Kind = "dropped"         // the batch was lost, and no answer said so; Word: why
	Evicted        Kind = "evicted"         // removed from the history of the service
	Stalled        Kind = "stalled"         // an unserved batch holds the service, for Options.UnservedHold
	Held           Kind = "held"            // a request about the stalled service holds a worker of its node
	Divided        Kind = "divided"         // the states of the circuit's services differ from now on; the last batch to have an effect
	United         Kind = "united"          // the states of the circuit's services agree again
	Killed         Kind = "killed"          // the node that runs the service was killed
	Restarted      Kind = "restart"         // the node was restarted, or started after Killed
)

// Entry is one line of the journal.
type Entry struct {
	Time    time.Time
	Kind    Kind
	Service batch.ServiceID // circuit::service of the event
	Batches []batch.ID
	Request int    // pairs PostStart with PostEnd; 0 elsewhere
	Try     int    // PostStart: n-th POST of Batches[0] at the service. Executed: n-th time
	Status  int    // PostEnd: the HTTP status; 0 without an answer
	Word    string // StatusAnswered: the status. Executed, Dropped: see Kind
}

// note adds an entry. The caller holds the lock.
func (n *Network) note(e Entry) {
	e.Time = time.Now()
	n.journal = append(n.journal, e)
}

// Journal returns everything that happened so far, in order. Its slices are
// shared: do not change them.
func (n *Network) Journal() []Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.journal)
}

// Executions returns the batches of a circuit that had an effect, in order: a batch that was
// executed twice appears twice. The service names its circuit. Its services have no effect
// that the coordinator does not have; see [Network.Applied].
func (n *Network) Executions(service batch.ServiceID) []batch.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.findService(service)
	if s == nil {
		return nil
	}
	return slices.Clone(s.services[0].appliedIDs)
}

// Applied returns the batches that had an effect at one service, in order. It differs between
// the services of a divided circuit.
func (n *Network) Applied(service batch.ServiceID) []batch.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.findService(service)
	if s == nil {
		return nil
	}
	return slices.Clone(s.appliedIDs)
}

// Posts returns the number of POSTs of a batch, at all services.
func (n *Network) Posts(id batch.ID) (count int) {
	for _, e := range n.Journal() {
		if e.Kind == PostStart && slices.Contains(e.Batches, id) {
			count++
		}
	}
	return count
}

// Check returns the first breach of dltbatch's promises: a batch that took effect twice, or
// before an earlier batch of its service in the given order. Batches without an effect are
// skipped.
func (n *Network) Check(order map[batch.ServiceID][]batch.ID) error {
	for service, want := range order {
		place, seen, last := map[batch.ID]int{}, map[batch.ID]bool{}, 0
		for i, id := range want {
			place[id] = i + 1
		}
		for _, id := range n.Executions(service) {
			p := place[id]
			switch {
			case seen[id]:
				return fmt.Errorf("splintertest: %s/%.12s executed twice", service, id)
			case p == 0: // another service of the circuit
			case p < last:
				return fmt.Errorf("splintertest: %s/%.12s executed after %.12s", service, id, want[last-1])
			default:
				last = p
			}
			seen[id] = true
		}
	}
	return nil
}
