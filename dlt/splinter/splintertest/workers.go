package splintertest

import (
	"context"
	"net"
	"net/http"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// worker is one of the threads that serve a node's requests. A connection belongs to the same
// worker all the time, and a handler that waits occupies the worker. So while one request waits
// for a stalled service, a node with two workers leaves every second connection without an answer.
// Requests that clients send in the meantime are served when the worker is free, even if the
// clients have left.
type worker struct {
	isBusy  bool
	waiting []*waitingRequest
}

type waitingRequest struct{ order float64 }

// workersPerNode is how many requests a node serves at once. If as many wait for a stalled
// service, the node answers nothing at all. Real nodes have as many workers as cores.
const workersPerNode = 2

func newWorkers() []*worker {
	out := make([]*worker, workersPerNode)
	for i := range out {
		out[i] = &worker{}
	}
	return out
}

type workerKey struct{}

// assignWorker gives a connection its worker, in turn.
func (v *node) assignWorker(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, workerKey{}, v.nextWorker())
}

func (v *node) nextWorker() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.connectionCount++
	return v.connectionCount % workersPerNode
}

// waitForWorker waits until the worker of a request is free and returns the func that releases it.
// ok is false if the node dies first. Waiting requests are served in any order.
func (v *node) waitForWorker(r *http.Request) (done func(), ok bool) {
	i, known := r.Context().Value(workerKey{}).(int)
	if !known { // the handler is used by another server
		i = v.nextWorker()
	}
	v.mu.Lock()
	w, life, t := v.workers[i], v.processEnd, &waitingRequest{}
	v.requestCount++
	t.order = simnode.Draw{Seed: v.options.Faults.seed(), Try: v.requestCount, Salt: "worker"}.Float("turn")
	w.waiting = append(w.waiting, t)
	v.mu.Unlock()
	err := v.await(context.Background(), nil, func() bool {
		return isClosed(life) || (!w.isBusy && w.next() == t)
	})
	if err != nil {
		return nil, false
	}
	defer v.mu.Unlock()
	if isClosed(life) {
		return nil, false
	}
	w.isBusy = true
	for j, other := range w.waiting {
		if other == t {
			w.waiting = append(w.waiting[:j:j], w.waiting[j+1:]...)
			break
		}
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		w.isBusy = false
		if len(w.waiting) > 0 {
			v.wake()
		}
	}, true
}

func (w *worker) next() *waitingRequest {
	first := w.waiting[0]
	for _, t := range w.waiting {
		if t.order < first.order {
			first = t
		}
	}
	return first
}

func isClosed(life <-chan struct{}) bool {
	select {
	case <-life:
		return true
	default:
		return false
	}
}

// waitForLocks waits until no batch holds the locks of a service. If it returns true, the
// network's lock is held; it returns false if the node died or the network is closed.
func (v *node) waitForLocks(s *service) bool {
	v.mu.Lock()
	life := v.processEnd
	if s.isStalled {
		v.note(Entry{Kind: Held, Service: s.name()})
	}
	v.mu.Unlock()
	if v.await(context.Background(), nil, func() bool { return isClosed(life) || !s.isStalled }) != nil {
		return false
	}
	if isClosed(life) {
		v.mu.Unlock()
		return false
	}
	return true
}
