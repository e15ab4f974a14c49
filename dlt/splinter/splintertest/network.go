package splintertest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Network holds nodes and the circuits between them. All methods may be called concurrently.
type Network struct {
	options  Options
	nodes    []*node
	services []*service

	mu               sync.Mutex
	changed          chan struct{} // closed, and replaced, after every change
	journal          []Entry
	postCount        int
	triesByOperation map[Operation]map[batch.ID]int
	lastAnswers      map[batch.ID]string
	tokens           map[string]bool // the tokens of Biome's logins

	closed     chan struct{}
	closeOnce  sync.Once
	goroutines sync.WaitGroup
}

// circuit is the state that the services of a circuit share.
type circuit struct {
	Circuit
	services      []*service // by id; the first one is the coordinator
	openProposals int        // how many are in progress
	dividedSince  time.Time  // when the services' states began to differ; zero if they are equal
}

// service is one service of a circuit, on its node.
type service struct {
	*circuit
	id   string
	node *node

	// The memory of the process, which is lost when the node dies.
	history          batchHistory
	queuedBatches    []*submitted
	outgoingMessages []peerMessage
	isRefusing       bool     // true while it answers 429
	isStalled        bool     // true while a poison batch holds its locks
	isExecutorDead   bool     // true if the executor's thread has ended
	openProposal     batch.ID // a proposal that it has checked and that has not ended

	// The content of the database.
	state      state
	appliedIDs []batch.ID // batches with an effect on this service
	receipts   []receipt

	streams         map[*stream]struct{}
	executionCounts map[batch.ID]int
}

func (s *service) name() batch.ServiceID { return batch.ServiceID(s.Circuit.ID + "::" + s.id) }

func newNetwork(o *Options) (*Network, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Network{
		options: c, changed: make(chan struct{}), closed: make(chan struct{}),
		triesByOperation: map[Operation]map[batch.ID]int{OpSubmit: {}, OpStatuses: {}, OpEvents: {}},
		lastAnswers:      map[batch.ID]string{}, tokens: map[string]bool{},
	}
	for range c.Addrs {
		n.nodes = append(n.nodes, newNode(n))
	}
	for _, k := range c.Circuits {
		shared := &circuit{Circuit: k}
		for i, id := range k.Services {
			s := &service{
				circuit: shared, id: id, node: n.nodes[i%len(n.nodes)], history: newHistory(c.HistorySize),
				state: state{}, streams: map[*stream]struct{}{}, executionCounts: map[batch.ID]int{},
			}
			shared.services = append(shared.services, s)
			n.services = append(n.services, s)
		}
		slices.SortFunc(shared.services, func(a, b *service) int { return cmp.Compare(a.id, b.id) })
	}
	return n, nil
}

// findService returns the service with this name; nil if there is none.
func (n *Network) findService(name batch.ServiceID) *service {
	for _, s := range n.services {
		if s.name() == name {
			return s
		}
	}
	return nil
}

// Service returns the name of the i-th service of the first circuit.
func (n *Network) Service(i int) batch.ServiceID { return n.services[i].name() }

// Services returns the names of all services, circuit by circuit.
func (n *Network) Services() []batch.ServiceID {
	out := make([]batch.ServiceID, len(n.services))
	for i, s := range n.services {
		out[i] = s.name()
	}
	return out
}

// NodeOf returns the index of the node that runs a service, or -1.
func (n *Network) NodeOf(service batch.ServiceID) int {
	if s := n.findService(service); s != nil {
		return slices.Index(n.nodes, s.node)
	}
	return -1
}

// Handler serves the REST API of one node.
func (n *Network) Handler(node int) http.Handler { return n.nodes[node] }

// wake wakes the goroutines that wait for a change. The caller holds the lock.
func (n *Network) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// goUnlessClosed runs f in a goroutine that Close waits for. It returns false if the network is
// closed.
func (n *Network) goUnlessClosed(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.goUnlessClosedLocked(f)
}

// goUnlessClosedLocked is goUnlessClosed for a caller that holds the lock.
func (n *Network) goUnlessClosedLocked(f func()) bool {
	if isClosed(n.closed) {
		return false
	}
	n.goroutines.Go(f)
	return true
}

// errClosed means that the network is closed, or that the client has left.
var errClosed = errors.New("splintertest: gone")

// await waits until ready returns true. It calls ready under the lock, and returns with the lock
// held, unless it returns an error.
func (n *Network) await(ctx context.Context, until <-chan time.Time, ready func() bool) error {
	for {
		n.mu.Lock()
		if isClosed(n.closed) {
			n.mu.Unlock()
			return errClosed
		}
		if ready() {
			return nil
		}
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-until:
			n.mu.Lock()
			return nil
		case <-ctx.Done():
			return errClosed
		case <-n.closed:
			return errClosed
		}
	}
}

// pause waits for d, and reports whether none of ends has ended the wait early.
func (n *Network) pause(d time.Duration, ends ...<-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var end <-chan struct{}
	if len(ends) > 0 {
		end = ends[0]
	}
	select {
	case <-timer.C:
		return true
	case <-end:
	case <-n.closed:
	}
	return false
}

// Evict makes a service forget a batch, and all earlier ones, as a hundred other batches
// would.
func (n *Network) Evict(service batch.ServiceID, id batch.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.findService(service); s != nil {
		n.noteEvicted(s, s.history.evict(id))
	}
}

// Status returns the word that a status query at the service would get.
func (n *Network) Status(service batch.ServiceID, id batch.ID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.findService(service); s != nil {
		return s.history.word(id)
	}
	return ""
}

// QueueLen returns the number of batches that wait at a service.
func (n *Network) QueueLen(service batch.ServiceID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.findService(service); s != nil {
		return len(s.queuedBatches)
	}
	return 0
}

// State returns the committed numbers of a service, by name. Services of one circuit differ
// during a commit, and for good if the circuit is divided.
func (n *Network) State(service batch.ServiceID) map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.findService(service); s != nil {
		return maps.Clone(s.state)
	}
	return nil
}

// Transactions returns the ids of the transactions whose receipts a service has.
func (n *Network) Transactions(service batch.ServiceID) (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.findService(service); s != nil {
		for _, r := range s.receipts {
			out = append(out, r.id)
		}
	}
	return out
}
