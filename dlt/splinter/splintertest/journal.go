package splintertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Kind says what a journal entry tells about.
type Kind string

// The kinds of entries.
const (
	PostStart      Kind = "post start"      // a POST of batches came in
	PostEnd        Kind = "post end"        // its answer is about to be written, or its connection ended
	StatusAnswered Kind = "status answered" // a status answer is about to be written; one that repeats the last about this id is not noted
	Accepted       Kind = "accepted"        // marked Pending in the history of the service; Word is late where its client had left
	Executed       Kind = "executed"        // proposed by the service. Word is Committed, Invalid, Rejected (rolled back), Again (a second effect) or Unrecorded (an effect, and the coordinator died)
	Applied        Kind = "applied"         // its effect is in the state of the service; Word says where there is no receipt of it
	Dropped        Kind = "dropped"         // gone without a word; Word is why
	Evicted        Kind = "evicted"         // pushed out of the history of the service
	Stalled        Kind = "stalled"         // a poison batch holds the service, for Options.PoisonStall
	Held           Kind = "held"            // a request about the stalled service holds a worker of its node
	Divided        Kind = "divided"         // the states of the circuit's services differ from now on; the last batch to have an effect
	United         Kind = "united"          // they agree again
	Killed         Kind = "killed"          // the node that runs the service
	Restarted      Kind = "restart"         // likewise
)

// Entry is one line of the journal.
type Entry struct {
	Time    time.Time
	Kind    Kind
	Service batch.ServiceID // circuit::service, where it happened
	Batches []batch.ID
	Request int    // pairs PostStart with PostEnd; 0 elsewhere
	Try     int    // PostStart: n-th POST of Batches[0] at the service. Executed: n-th time
	Status  int    // PostEnd: the HTTP status; 0 where nothing was answered
	Word    string // StatusAnswered: the status. Executed, Dropped: see Kind
}

// note adds an entry. The lock is held.
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

// Executions returns the batches of a circuit that had an effect, in order: one that
// was executed twice is in it twice. The service names its circuit. No other service of
// it has an effect that its coordinator has not; see [Network.Applied].
func (n *Network) Executions(service batch.ServiceID) []batch.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.find(service)
	if s == nil {
		return nil
	}
	return slices.Clone(s.services[0].applied)
}

// Applied returns the batches that had an effect at one service, in order. Where a circuit
// is divided its services differ in it.
func (n *Network) Applied(service batch.ServiceID) []batch.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.find(service)
	if s == nil {
		return nil
	}
	return slices.Clone(s.applied)
}

// Posts returns how many POSTs of a batch came in, at whatever service.
func (n *Network) Posts(id batch.ID) (count int) {
	for _, e := range n.Journal() {
		if e.Kind == PostStart && slices.Contains(e.Batches, id) {
			count++
		}
	}
	return count
}

// Check returns the first breach of what dltbatch promises: a batch that had its
// effect twice, or one of a service that had it before one that stands before it in
// the order given. Batches that had none are passed over.
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
			case p == 0: // of another service of the circuit
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
