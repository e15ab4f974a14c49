package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dltbatch/dltbatch/store/postgres"
)

// fault is a kind of fault. Its object suffers one fault at a time.
type fault struct {
	name   string
	object func(f *faults) string
	do     func(f *faults, object string, d draw) error
}

// draw holds the random numbers of a fault, from 0 to 1.
type draw [2]float64

func (d draw) between(i int, least, most time.Duration) time.Duration {
	return least + time.Duration(d[i]*float64(most-least))
}

// faults chooses the faults: each kind occurs once in a deck, and the deck is shuffled again when
// it is used up.
type faults struct {
	w     *world
	st    *postgres.Store // the store of the test's operator
	kinds []fault
	rng   *rand.Rand
	wg    sync.WaitGroup

	mu    sync.Mutex
	busy  map[string]bool
	count map[string]int
	errs  []error
}

func oneOf(what string) func(f *faults) string {
	return func(f *faults) string { return fmt.Sprint(what, f.rng.IntN(len(f.w.slots))) }
}

func only(what string) func(*faults) string { return func(*faults) string { return what } }

func (f *faults) slot(object string) *slot { return f.w.slots[object[len(object)-1]-'0'] }

const restarted = "database restarted without a shutdown"

// commonKinds are the faults of every ledger.
var commonKinds = []fault{
	{"worker killed", oneOf("worker"), func(f *faults, object string, d draw) error {
		s := f.slot(object)
		p := s.current()
		if err := p.died(); err != nil {
			return err
		}
		p.kill()
		f.w.dies(p.name)
		time.Sleep(d.between(0, 0, time.Second))
		return f.w.start(s)
	}},
	{"worker frozen beyond its claims", oneOf("worker"), func(f *faults, object string, d draw) error {
		p := f.slot(object).current()
		from := time.Now()
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(d.between(0, claimTTL+lateArrival/2, 2*claimTTL))
		err := p.signal(syscall.SIGCONT)
		f.w.froze(p.name, span{from, time.Now()})
		return err
	}},
	{restarted, only("postgres"), func(f *faults, _ string, _ draw) error {
		return f.w.cluster.RestartImmediately()
	}},
	{"ledger restarted", only("ledger"), func(f *faults, _ string, d draw) error {
		return f.w.control("POST", fmt.Sprintf("/restart?down=%d", d.between(0, 0, 700*time.Millisecond).Milliseconds()), nil)
	}},
	{"ledger restarted twice", only("ledger"), func(f *faults, _ string, d draw) error {
		// The second restart comes while the batches that the first restart made the ledger forget
		// are under way again.
		for i := range d {
			time.Sleep(d.between(i, 0, 900*time.Millisecond))
			if err := f.w.control("POST", "/restart?down=100", nil); err != nil {
				return err
			}
		}
		return nil
	}},
	{"one statement in ten fails", oneOf("worker"), func(f *faults, object string, d draw) error {
		p := f.slot(object).current()
		if err := ask("POST", p.said[0]+"/statements?fail=yes", nil); err != nil {
			return err
		}
		time.Sleep(d.between(0, time.Second, 4*time.Second))
		var did string
		if err := ask("POST", p.said[0]+"/statements", &did); err != nil {
			return err
		}
		f.w.t.Logf("statements of %s: %s", p.name, did)
		return nil
	}},
	cut("database"), cut("node"),
	slow("database"), slow("node"),
	swallow("database"), swallow("node"),
	mute("database"), mute("node"),
}

// kinds returns the faults of this world's ledger.
func (w *world) kinds() []fault {
	switch {
	case w.kind == evmNode || w.kind == gethNode:
		return append(append(slices.Clone(commonKinds), evmKinds...), withdrawal)
	case onChain(w.kind):
		return append(slices.Clone(commonKinds), evmKinds...)
	case w.patroni != nil:
		return append(slices.DeleteFunc(slices.Clone(commonKinds), func(f fault) bool { return f.name == restarted }), patroniKinds...)
	}
	return commonKinds
}

func (f *faults) proxy(object string) *proxy {
	if object[0] == 'd' {
		return f.slot(object).database
	}
	return f.slot(object).node
}

func cut(what string) fault {
	return fault{"connections cut: " + what, oneOf(what), func(f *faults, object string, d draw) error {
		f.proxy(object).cut(true)
		time.Sleep(d.between(0, 0, 700*time.Millisecond))
		f.proxy(object).cut(false)
		return nil
	}}
}

func slow(what string) fault {
	return fault{"connections slow: " + what, oneOf(what), func(f *faults, object string, d draw) error {
		f.proxy(object).slow(d.between(0, 20*time.Millisecond, 350*time.Millisecond))
		time.Sleep(d.between(1, 500*time.Millisecond, 2500*time.Millisecond))
		f.proxy(object).slow(0)
		return nil
	}}
}

func swallow(what string) fault {
	return fault{"nothing gets through: " + what, oneOf(what), func(f *faults, object string, d draw) error {
		f.proxy(object).swallow()
		time.Sleep(d.between(0, 300*time.Millisecond, claimTTL+lateArrival+time.Second))
		if d[1] < 0.5 {
			f.proxy(object).cut(false)
		}
		f.proxy(object).open()
		return nil
	}}
}

func mute(what string) fault {
	return fault{"connections forgotten: " + what, oneOf(what), func(f *faults, object string, _ draw) error {
		f.proxy(object).mute()
		return nil
	}}
}

// deal makes n faults, spread over d, and then more at the same rate until each kind has occurred.
// It returns when all are over.
func (w *world) deal(seed uint64, n int, d time.Duration) (*faults, error) {
	f := &faults{w: w, st: w.store(), kinds: w.kinds(), rng: rand.New(rand.NewPCG(seed, 9)), busy: map[string]bool{}, count: map[string]int{}}
	tick := time.NewTicker(d / time.Duration(n))
	defer tick.Stop()
	var deck []int
	for i := 0; (i < n || len(f.count) < len(f.kinds)) && f.err() == nil; i++ {
		<-tick.C
		if len(deck) < len(f.kinds) { // faults that could not begin stay on top
			deck = append(deck, f.rng.Perm(len(f.kinds))...)
		}
		at := f.next(deck)
		for ; at < 0; at = f.next(deck) {
			time.Sleep(20 * time.Millisecond) // every object suffers a fault already
		}
		deck = append(deck[:at], deck[at+1:]...)
	}
	f.wg.Wait()
	return f, f.err()
}

// next begins the first fault of the deck whose object is free, and returns its index.
func (f *faults) next(deck []int) int {
	for at, k := range deck {
		kind := f.kinds[k]
		object, d := kind.object(f), draw{f.rng.Float64(), f.rng.Float64()}
		if !f.take(object) {
			continue
		}
		f.count[kind.name]++
		f.w.suffers(object, 1)
		f.wg.Go(func() {
			err := kind.do(f, object, d)
			f.w.suffers(object, -1)
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.busy, object)
			if err != nil {
				f.errs = append(f.errs, fmt.Errorf("%s (%s): %w", kind.name, object, err))
			}
		})
		return at
	}
	return -1
}

func (f *faults) take(object string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[object] {
		return false
	}
	f.busy[object] = true
	return true
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) > 0 {
		return f.errs[0]
	}
	return nil
}
