package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/store"
)

// questions counts what the nodes are asked. A question about a batch in doubt is
// about its witnesses, too, which stand behind it.
type questions struct {
	mu    sync.Mutex
	count int
	about map[batch.ID]bool
}

func newQuestions() *questions { return &questions{about: map[batch.ID]bool{}} }

// note is called by the nodes for every request; nothing else happens to it.
func (q *questions) note(p splintertest.Point) splintertest.Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.Operation == splintertest.OpStatuses && len(p.Batches) > 0 {
		q.count++
		q.about[p.Batches[0]] = true
	}
	return splintertest.Fault{}
}

// saved says what the events have saved, of n batches.
func (q *questions) saved(n int) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Sprintf("events told of %d batches; the nodes were asked about the other %d, %d times", n-len(q.about), len(q.about), q.count)
}

// listen starts two nodes that want to know who asks.
func listen(asked *questions) (*splintertest.Network, error) {
	return splintertest.Listen(&splintertest.Options{
		Circuits: circuits, CommitInterval: commitInterval, Faults: faults(asked),
		Authorize: func(header string, _ splintertest.Operation) bool {
			return strings.HasPrefix(header, "Bearer Cylinder:")
		},
	})
}

// connect makes the client of both nodes.
func connect(network *splintertest.Network, key sawtooth.Signer, journal store.Journal) (*splinter.Client, error) {
	return splinter.New(network.URL(0), &splinter.Options{
		Node:  func(s batch.ServiceID) string { return network.URL(network.NodeOf(s)) },
		Token: splinter.CylinderToken(key),
		// What the nodes' events say was committed is kept beside the queue: without it
		// little can be proved.
		Journal:     journal,
		LateArrival: lateArrival, CoordinatorTimeout: coordinatorTimeout,
		Margin: margin, ProbeInterval: probeInterval, StreamLease: streamLease,
	})
}
