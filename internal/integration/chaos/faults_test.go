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
	name         string
	chooseObject func(f *faultInjector) string
	inject       func(f *faultInjector, object string, d randomPair) error
}

// randomPair holds the random numbers of a fault, from 0 to 1.
type randomPair [2]float64

func (d randomPair) durationBetween(i int, least, most time.Duration) time.Duration {
	return least + time.Duration(d[i]*float64(most-least))
}

// faultInjector chooses the faults: each kind occurs once in a deck, and the deck is shuffled
// again when it is used up.
type faultInjector struct {
	world *world
	st    *postgres.Store // the store of the test's operator
	kinds []fault
	rng   *rand.Rand
	wg    sync.WaitGroup

	mu          sync.Mutex
	busyObjects map[string]bool
	count       map[string]int
	errs        []error
}

func workerObject(what string) func(f *faultInjector) string {
	return func(f *faultInjector) string { return fmt.Sprint(what, f.rng.IntN(len(f.world.slots))) }
}

func fixedObject(what string) func(*faultInjector) string {
	return func(*faultInjector) string { return what }
}

func (f *faultInjector) slot(object string) *workerSlot {
	return f.world.slots[object[len(object)-1]-'0']
}

const restartFault = "database restarted without a shutdown"

// commonFaults are the faults of every ledger.
var commonFaults = []fault{
	{"worker killed", workerObject("worker"), func(f *faultInjector, object string, d randomPair) error {
		s := f.slot(object)
		p := s.current()
		if err := p.exitError(); err != nil {
			return err
		}
		p.kill()
		f.world.noteDeath(p.name)
		time.Sleep(d.durationBetween(0, 0, time.Second))
		return f.world.start(s)
	}},
	{"worker frozen beyond its claims", workerObject("worker"), func(f *faultInjector, object string, d randomPair) error {
		p := f.slot(object).current()
		from := time.Now()
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(d.durationBetween(0, claimTTL+lateArrival/2, 2*claimTTL))
		err := p.signal(syscall.SIGCONT)
		f.world.noteFreeze(p.name, timeSpan{from, time.Now()})
		return err
	}},
	{restartFault, fixedObject("postgres"), func(f *faultInjector, _ string, _ randomPair) error {
		return f.world.cluster.RestartImmediately()
	}},
	{"ledger restarted", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error {
		return f.world.controlLedger("POST", fmt.Sprintf("/restart?down=%d", d.durationBetween(0, 0, 700*time.Millisecond).Milliseconds()), nil)
	}},
	{"ledger restarted twice", fixedObject("ledger"), func(f *faultInjector, _ string, d randomPair) error {
		// The second restart comes while the batches that the first restart made the ledger forget
		// are under way again.
		for i := range d {
			time.Sleep(d.durationBetween(i, 0, 900*time.Millisecond))
			if err := f.world.controlLedger("POST", "/restart?down=100", nil); err != nil {
				return err
			}
		}
		return nil
	}},
	{"one statement in ten fails", workerObject("worker"), func(f *faultInjector, object string, d randomPair) error {
		p := f.slot(object).current()
		if err := requestChild("POST", p.firstLine[0]+"/statements?fail=yes", nil); err != nil {
			return err
		}
		time.Sleep(d.durationBetween(0, time.Second, 4*time.Second))
		var did string
		if err := requestChild("POST", p.firstLine[0]+"/statements", &did); err != nil {
			return err
		}
		f.world.t.Logf("statements of %s: %s", p.name, did)
		return nil
	}},
	cutFault("database"), cutFault("node"),
	slowFault("database"), slowFault("node"),
	swallowFault("database"), swallowFault("node"),
	muteFault("database"), muteFault("node"),
}

// faultKinds returns the faults of this world's ledger.
func (w *world) faultKinds() []fault {
	switch {
	case w.ledgerKind == evmNode || w.ledgerKind == gethNode:
		return append(append(slices.Clone(commonFaults), evmFaults...), withdrawalFault)
	case onChain(w.ledgerKind):
		return append(slices.Clone(commonFaults), evmFaults...)
	case w.patroni != nil:
		return append(slices.DeleteFunc(slices.Clone(commonFaults), func(f fault) bool { return f.name == restartFault }), patroniFaultKinds...)
	}
	return commonFaults
}

func (f *faultInjector) proxy(object string) *proxy {
	if object[0] == 'd' {
		return f.slot(object).database
	}
	return f.slot(object).node
}

func cutFault(what string) fault {
	return fault{"connections cut: " + what, workerObject(what), func(f *faultInjector, object string, d randomPair) error {
		f.proxy(object).resetAll(true)
		time.Sleep(d.durationBetween(0, 0, 700*time.Millisecond))
		f.proxy(object).resetAll(false)
		return nil
	}}
}

func slowFault(what string) fault {
	return fault{"connections slow: " + what, workerObject(what), func(f *faultInjector, object string, d randomPair) error {
		f.proxy(object).setDelay(d.durationBetween(0, 20*time.Millisecond, 350*time.Millisecond))
		time.Sleep(d.durationBetween(1, 500*time.Millisecond, 2500*time.Millisecond))
		f.proxy(object).setDelay(0)
		return nil
	}}
}

func swallowFault(what string) fault {
	return fault{"nothing gets through: " + what, workerObject(what), func(f *faultInjector, object string, d randomPair) error {
		f.proxy(object).holdBytes()
		time.Sleep(d.durationBetween(0, 300*time.Millisecond, claimTTL+lateArrival+time.Second))
		if d[1] < 0.5 {
			f.proxy(object).resetAll(false)
		}
		f.proxy(object).releaseBytes()
		return nil
	}}
}

func muteFault(what string) fault {
	return fault{"connections forgotten: " + what, workerObject(what), func(f *faultInjector, object string, _ randomPair) error {
		f.proxy(object).muteLinks()
		return nil
	}}
}

// injectFaults makes n faults, spread over d, and then more at the same rate until each kind has
// occurred. It returns when all are over.
func (w *world) injectFaults(seed uint64, n int, d time.Duration) (*faultInjector, error) {
	f := &faultInjector{world: w, st: w.store(), kinds: w.faultKinds(), rng: rand.New(rand.NewPCG(seed, 9)), busyObjects: map[string]bool{}, count: map[string]int{}}
	tick := time.NewTicker(d / time.Duration(n))
	defer tick.Stop()
	var deck []int
	for i := 0; (i < n || len(f.count) < len(f.kinds)) && f.err() == nil; i++ {
		<-tick.C
		if len(deck) < len(f.kinds) { // faults that could not begin stay on top
			deck = append(deck, f.rng.Perm(len(f.kinds))...)
		}
		at := f.beginNext(deck)
		for ; at < 0; at = f.beginNext(deck) {
			time.Sleep(20 * time.Millisecond) // every object suffers a fault already
		}
		deck = append(deck[:at], deck[at+1:]...)
	}
	f.wg.Wait()
	return f, f.err()
}

// beginNext begins the first fault of the deck whose object is free, and returns its index.
func (f *faultInjector) beginNext(deck []int) int {
	for at, k := range deck {
		kind := f.kinds[k]
		object, d := kind.chooseObject(f), randomPair{f.rng.Float64(), f.rng.Float64()}
		if !f.reserve(object) {
			continue
		}
		f.count[kind.name]++
		f.world.noteFault(object, 1)
		f.wg.Go(func() {
			err := kind.inject(f, object, d)
			f.world.noteFault(object, -1)
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.busyObjects, object)
			if err != nil {
				f.errs = append(f.errs, fmt.Errorf("%s (%s): %w", kind.name, object, err))
			}
		})
		return at
	}
	return -1
}

func (f *faultInjector) reserve(object string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busyObjects[object] {
		return false
	}
	f.busyObjects[object] = true
	return true
}

func (f *faultInjector) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) > 0 {
		return f.errs[0]
	}
	return nil
}
