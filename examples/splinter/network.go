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

// queryCounter counts the status queries to the nodes. A query about a batch in doubt also has the
// batch's witnesses, after it.
type queryCounter struct {
	mu           sync.Mutex
	queryCount   int
	askedBatches map[batch.ID]bool
}

func newQueryCounter() *queryCounter { return &queryCounter{askedBatches: map[batch.ID]bool{}} }

// countQuery counts a request if it is a status query. The nodes call it for every request; it
// makes no faults.
func (q *queryCounter) countQuery(p splintertest.RequestPoint) splintertest.Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.Operation == splintertest.OpStatuses && len(p.Batches) > 0 {
		q.queryCount++
		q.askedBatches[p.Batches[0]] = true
	}
	return splintertest.Fault{}
}

// describeSaved says how many status queries the events of the nodes saved, for n batches.
func (q *queryCounter) describeSaved(n int) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Sprintf("events reported %d batches; the nodes were asked about the other %d, %d times", n-len(q.askedBatches), len(q.askedBatches), q.queryCount)
}

// startNodes starts two nodes that require a token. The nodes wait for a silent peer as long as
// the client's CoordinatorTimeout says: a proposal whose peer has restarted blocks its circuit for
// that time.
func startNodes(asked *queryCounter) (*splintertest.Network, error) {
	return splintertest.Listen(&splintertest.Options{
		Circuits: circuits, CommitInterval: commitInterval, CoordinatorTimeout: coordinatorTimeout, Faults: faults(asked),
		Authorize: func(header string, _ splintertest.Operation) bool {
			return strings.HasPrefix(header, "Bearer Cylinder:")
		},
	})
}

// newClient makes a client for both nodes.
func newClient(network *splintertest.Network, key sawtooth.Signer, journal dlt.Journal) (*splinter.Client, error) {
	return splinter.New(network.URL(0), &splinter.Options{
		Node:  func(s batch.ServiceID) string { return network.URL(network.NodeOf(s)) },
		Token: splinter.CylinderToken(key),
		// Commit events are stored in the same database as the queue: without them little can be
		// proved.
		Journal:     journal,
		LateArrival: lateArrival, CoordinatorTimeout: coordinatorTimeout,
		ClockMargin: clockMargin, ProbeInterval: probeInterval, StreamLease: streamLease,
	})
}
