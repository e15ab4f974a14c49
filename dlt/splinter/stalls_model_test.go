package splinter

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// modelRequest is a request that has arrived at a thread of the modelled node.
type modelRequest struct {
	isStalled bool // true if it is about the stalled service
	done      chan struct{}
}

// nodeThreads is a node in virtual time. Each connection belongs to one thread, which serves
// requests in the order of their arrival. A request about the stalled service occupies its thread
// until the stall ends.
type nodeThreads struct {
	queues      []chan modelRequest
	nextThread  atomic.Int64
	frozenUntil time.Time // no thread serves a request until this time
	closed      chan struct{}
	heldCount   atomic.Int64 // how many threads the stalled service has occupied
}

func newNodeThreads(cores int, frozen time.Duration) *nodeThreads {
	n := &nodeThreads{closed: make(chan struct{}), frozenUntil: time.Now().Add(frozen)}
	for range cores {
		q := make(chan modelRequest, 10_000)
		n.queues = append(n.queues, q)
		go func() {
			for r := range q {
				time.Sleep(time.Until(n.frozenUntil))
				select {
				case <-n.closed:
				default:
					if r.isStalled {
						n.heldCount.Add(1)
						<-n.closed
					}
				}
				close(r.done)
			}
		}()
	}
	return n
}

func (n *nodeThreads) serve(thread int64, stalled bool) <-chan struct{} {
	r := modelRequest{isStalled: stalled, done: make(chan struct{})}
	n.queues[thread] <- r
	return r.done
}

// modelClient asks about one service as the monitor does.
type modelClient struct {
	requests *nodeRequests
	threads  *nodeThreads
	service  int
	random   *rand.Rand

	thread       int64
	lastAnswerAt time.Time // when the connection last answered
}

// ask asks once. rests is how long nothing may be asked about the service.
func (a *modelClient) ask(ctx context.Context) (rests time.Duration) {
	v, rests, err := a.requests.enter(ctx, batch.ServiceID(strconv.Itoa(a.service)))
	if err != nil {
		return rests
	}
	if time.Since(a.lastAnswerAt) > idleTimeout { // a new connection is opened
		time.Sleep(time.Duration(a.random.IntN(3000)) * time.Microsecond)
		a.thread = a.threads.nextThread.Add(1) % int64(len(a.threads.queues))
	}
	time.Sleep(time.Duration(a.random.IntN(100)) * time.Microsecond)
	v.noteSent()
	wait := 5 * time.Second
	if a.requests.isSuspect(time.Now()) {
		wait = connectionCheckTimeout
	}
	select {
	case <-a.threads.serve(a.thread, a.service == 0):
		a.lastAnswerAt = time.Now()
		v.leave(true, false)
	case <-time.After(wait):
		a.lastAnswerAt = time.Time{}
		v.leave(false, true)
	}
	return 0
}

// runModel asks about four services each second while the first of them is stalled. At first the
// whole node is frozen for a while. play returns the longest rest of a healthy service, and how
// many threads the stalled service has occupied.
func runModel(t *testing.T, seed uint64, cores int, frozen time.Duration) (rested time.Duration, held int) {
	t.Helper()
	n, g := newNodeThreads(cores, frozen), &nodeRequests{}
	defer func() {
		for _, q := range n.queues {
			close(q)
		}
	}()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Second)
	defer stop()
	var (
		askers sync.WaitGroup
		mu     sync.Mutex
	)
	for s := range 4 {
		a := &modelClient{requests: g, threads: n, service: s, random: rand.New(rand.NewPCG(seed, uint64(s)))}
		phase := time.Duration(a.random.IntN(3)) * 200 * time.Millisecond
		idle := time.Duration(a.random.IntN(2)*a.random.IntN(20)) * time.Second
		askers.Go(func() {
			time.Sleep(idle)
			for began := time.Now(); ctx.Err() == nil; {
				time.Sleep(time.Until(began.Add(time.Since(began).Truncate(time.Second) + time.Second + phase)))
				left := a.ask(ctx)
				mu.Lock()
				if s > 0 {
					rested = max(rested, left)
				}
				mu.Unlock()
			}
		})
	}
	<-ctx.Done()
	close(n.closed)
	askers.Wait()
	return rested, int(n.heldCount.Load())
}

// The service that rests for the time of a stall is the stalled one. The order in which requests
// were written decides, and not the order in which they began to wait for a connection.
func TestTheStalledServiceRests(t *testing.T) {
	const seeds = 50
	for name, row := range map[string]struct {
		cores  int
		frozen time.Duration
	}{
		"2 cores": {2, 0}, "4 cores": {4, 0},
		"2 cores, all frozen before": {2, 30 * time.Second}, "4 cores, all frozen before": {4, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			wrong, held := 0, 0
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) {
					rested, threads := runModel(t, seed, row.cores, row.frozen)
					if held += threads; rested > time.Minute {
						wrong++
						t.Logf("seed %d: %s", seed, rested)
					}
				})
			}
			t.Logf("in %d of %d a healthy service rested for longer than a minute; the stalled one took %d threads", wrong, seeds, held)
			assert.Zero(t, wrong)
		})
	}
}
