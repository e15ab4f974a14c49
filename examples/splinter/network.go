package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// questions counts the status queries to the nodes. A query about a batch in doubt also has the
// batch's witnesses, after it.
type questions struct {
	mu    sync.Mutex
	count int
	about map[batch.ID]bool
}

func newQuestions() *questions { return &questions{about: map[batch.ID]bool{}} }

// note is called by the nodes for every request. It makes no faults.
func (q *questions) note(p splintertest.RequestPoint) splintertest.Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.Operation == splintertest.OpStatuses && len(p.Batches) > 0 {
		q.count++
		q.about[p.Batches[0]] = true
	}
	return splintertest.Fault{}
}

// saved says how many status queries the events of the nodes saved, for n batches.
func (q *questions) saved(n int) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Sprintf("events reported %d batches; the nodes were asked about the other %d, %d times", n-len(q.about), len(q.about), q.count)
}

// listen starts two nodes that require a token. The nodes wait for a silent peer as long as the
// client's CoordinatorTimeout says: a proposal whose peer has restarted blocks its circuit for
// that time.
func listen(asked *questions) (*splintertest.Network, error) {
	return splintertest.Listen(&splintertest.Options{
		Circuits: circuits, CommitInterval: commitInterval, CoordinatorTimeout: coordinatorTimeout, Faults: faults(asked),
		Authorize: func(header string, _ splintertest.Operation) bool {
			return strings.HasPrefix(header, "Bearer Cylinder:")
		},
	})
}

// connect makes a client for both nodes.
func connect(network *splintertest.Network, key sawtooth.Signer, journal dlt.Journal) (*splinter.Client, error) {
	return splinter.New(network.URL(0), &splinter.Options{
		Node:  func(s batch.ServiceID) string { return network.URL(network.NodeOf(s)) },
		Token: splinter.CylinderToken(key),
		// Commit events are stored in the same database as the queue: without them little can be
		// proved.
		Journal:     journal,
		LateArrival: lateArrival, CoordinatorTimeout: coordinatorTimeout,
		ClockMargin: margin, ProbeInterval: probeInterval, StreamLease: streamLease,
	})
}
