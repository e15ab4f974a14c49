package engine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// services has the services that this process has met. A service is resolved once, when it is
// first met: its ledger's client is asked for its traits. Only the admission resolves it again
// ([admission]).
type services struct {
	ledger        dlt.Ledger
	onTrouble     func(error)
	panicReported atomic.Bool // whether a panic of Traits was reported, which is called too often to report each panic

	mu          sync.Mutex
	byService   map[batch.ServiceID]service
	forgetAt    int // when byService has this many services, the served ones are forgotten
	sharedTerms map[dlt.Traits]*serviceTerms
}

// service is one service as this process knows it.
type service struct {
	terms    *serviceTerms // nil after a panic of Traits
	isJudged bool          // whether the admission of this Run has judged the service
	err      error         // the judgement: why this Run does not serve the service; nil if it does
}

// name returns the name of the ledger that the service is resolved to.
func (s service) name() string {
	if s.terms == nil {
		return ""
	}
	return s.terms.Name
}

// serviceTerms are a client's name and traits for a service. Services with equal traits share one
// value.
type serviceTerms struct{ dlt.Traits }

// resend returns the rule by which batches may be sent again.
func (t *serviceTerms) resend() store.Resend {
	return store.Resend{HarmlessFor: t.ResendHarmlessFor, LateArrival: t.LateArrival}
}

const (
	// maxServices is the least number of services that are remembered. With more, the served ones
	// are forgotten, and resolved and judged again.
	maxServices = 100_000
	// maxSharedTerms is the most different terms that are remembered for sharing.
	maxSharedTerms = 1000
)

func newServices(l dlt.Ledger, trouble func(error)) *services {
	v := &services{ledger: l, onTrouble: trouble}
	v.forget()
	return v
}

// forget removes all services, at the start of a Run.
func (v *services) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byService, v.forgetAt, v.sharedTerms = map[batch.ServiceID]service{}, maxServices, map[dlt.Traits]*serviceTerms{}
}

// askClient asks the client for the traits. No lock is held meanwhile, since the client may panic
// or call the Runner.
func (v *services) askClient(s batch.ServiceID) (t dlt.Traits, err error) {
	if err := loop.Contain(func() error { t = v.ledger.Traits(s); return nil }); err != nil {
		return dlt.Traits{}, fmt.Errorf("the ledger's traits: %w", err)
	}
	return t, nil
}

// entryOf returns the entry of a service.
func (v *services) entryOf(s batch.ServiceID) service {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byService[s]
}

// knownTerms returns the terms of a service, which it resolves if the service is new.
func (v *services) knownTerms(s batch.ServiceID) (*serviceTerms, error) {
	if known := v.entryOf(s); known.terms != nil {
		return known.terms, nil
	}
	t, err := v.askClient(s)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.byService[s]
	if known.terms == nil {
		known.terms = v.shareTerms(t)
		v.storeEntry(s, known)
	}
	return known.terms, nil
}

// termsOf returns the terms of a service. After a panic they are the most careful ones possible.
func (v *services) termsOf(s batch.ServiceID) *serviceTerms {
	t, err := v.knownTerms(s)
	if err == nil {
		return t
	}
	if !v.panicReported.Swap(true) { // set before the report, since an observer may ask again
		v.onTrouble(err)
	}
	return &serviceTerms{dlt.Traits{Name: "unknown", LateArrival: dlt.Forever / 4, Grace: dlt.Forever / 4}}
}

// storeJudgement stores a client's answer about a service, and the admission's judgement. It
// reports whether the service has become held, or is no longer held. A client that panicked has
// given no answer.
func (v *services) storeJudgement(s batch.ServiceID, t dlt.Traits, err error) (news bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.byService[s]
	now := service{isJudged: true, err: err}
	if !loop.Panicked(err) {
		now.terms = v.shareTerms(t)
	}
	v.storeEntry(s, now)
	return (old.isJudged && old.err != nil) != (err != nil)
}

// shareTerms returns the value for these traits. v.mu is held.
func (v *services) shareTerms(t dlt.Traits) *serviceTerms {
	shared := v.sharedTerms[t]
	if shared == nil {
		if len(v.sharedTerms) >= maxSharedTerms {
			clear(v.sharedTerms)
		}
		shared = &serviceTerms{t}
		v.sharedTerms[t] = shared
	}
	return shared
}

// storeEntry keeps the entry of a service. v.mu is held.
func (v *services) storeEntry(s batch.ServiceID, known service) {
	if _, is := v.byService[s]; !is && len(v.byService) >= v.forgetAt {
		maps.DeleteFunc(v.byService, func(_ batch.ServiceID, k service) bool { return k.err == nil })
		v.forgetAt = max(maxServices, 2*len(v.byService)) // the held services stay, so the limit leaves room for as many others
	}
	v.byService[s] = known
}

func (v *services) traits(s batch.ServiceID) dlt.Traits { return v.termsOf(s).Traits }

func (v *services) resend(s batch.ServiceID) store.Resend { return v.termsOf(s).resend() }

func (v *services) maxInFlight(s batch.ServiceID) int { return v.termsOf(s).MaxInFlightPerService }

func (v *services) isNumbered(s batch.ServiceID) bool {
	t := v.termsOf(s)
	return t.Prepares && t.PreparesInOrder
}

func (v *services) keepsOrder(s batch.ServiceID) bool { return v.termsOf(s).KeepsOrder }

// leavesTombstones reports whether a service's batches leave tombstones, because a batch that is
// added again would or might take effect again. It is true if another ledger serves the service,
// because this Runner's traits do not hold for that ledger.
func (v *services) leavesTombstones(s batch.ServiceID, ledger string) bool {
	t := v.termsOf(s)
	return otherLedger(ledger, t.Name) != nil || !t.AddAgainHarmless
}
