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

// request is a request that has arrived at a thread of the modelled node.
type request struct {
	stalled bool // true if it is about the stalled service
	done    chan struct{}
}

// threads is a node in virtual time. Each connection belongs to one thread, which serves requests
// in the order of their arrival. A request about the stalled service occupies its thread until the
// stall ends.
type threads struct {
	queues []chan request
	next   atomic.Int64
	frozen time.Time // no thread serves a request until this time
	ends   chan struct{}
	held   atomic.Int64 // how many threads the stalled service has occupied
}

func newThreads(cores int, frozen time.Duration) *threads {
	n := &threads{ends: make(chan struct{}), frozen: time.Now().Add(frozen)}
	for range cores {
		q := make(chan request, 10_000)
		n.queues = append(n.queues, q)
		go func() {
			for r := range q {
				time.Sleep(time.Until(n.frozen))
				select {
				case <-n.ends:
				default:
					if r.stalled {
						n.held.Add(1)
						<-n.ends
					}
				}
				close(r.done)
			}
		}()
	}
	return n
}

func (n *threads) serve(thread int64, stalled bool) <-chan struct{} {
	r := request{stalled: stalled, done: make(chan struct{})}
	n.queues[thread] <- r
	return r.done
}

// asker asks about one service as the monitor does.
type asker struct {
	g       *stalls
	n       *threads
	service int
	rnd     *rand.Rand

	thread int64
	warm   time.Time // when the connection last answered
}

// ask asks once. rests is how long nothing may be asked about the service.
func (a *asker) ask(ctx context.Context) (rests time.Duration) {
	v, rests, err := a.g.enter(ctx, batch.ServiceID(strconv.Itoa(a.service)))
	if err != nil {
		return rests
	}
	if time.Since(a.warm) > idleTimeout { // a new connection is opened
		time.Sleep(time.Duration(a.rnd.IntN(3000)) * time.Microsecond)
		a.thread = a.n.next.Add(1) % int64(len(a.n.queues))
	}
	time.Sleep(time.Duration(a.rnd.IntN(100)) * time.Microsecond)
	v.noteSent()
	wait := 5 * time.Second
	if a.g.isSuspect(time.Now()) {
		wait = connectionCheckTimeout
	}
	select {
	case <-a.n.serve(a.thread, a.service == 0):
		a.warm = time.Now()
		v.leave(true, false)
	case <-time.After(wait):
		a.warm = time.Time{}
		v.leave(false, true)
	}
	return 0
}

// play asks about four services each second while the first of them is stalled. At first the whole
// node is frozen for a while. play returns the longest rest of a healthy service, and how many
// threads the stalled service has occupied.
func play(t *testing.T, seed uint64, cores int, frozen time.Duration) (rested time.Duration, held int) {
	t.Helper()
	n, g := newThreads(cores, frozen), &stalls{}
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
		a := &asker{g: g, n: n, service: s, rnd: rand.New(rand.NewPCG(seed, uint64(s)))}
		phase := time.Duration(a.rnd.IntN(3)) * 200 * time.Millisecond
		idle := time.Duration(a.rnd.IntN(2)*a.rnd.IntN(20)) * time.Second
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
	close(n.ends)
	askers.Wait()
	return rested, int(n.held.Load())
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
					rested, threads := play(t, seed, row.cores, row.frozen)
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
