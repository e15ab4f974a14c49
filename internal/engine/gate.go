package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// gate decides for each service, when a Run first meets it, whether this Run serves it. A
// service that is not served is held, and reported once; the other services go on. A service whose
// ledger has another name than when it was judged is judged again: its batch in doubt must neither be
// asked about at the new ledger nor be sent there. So each claim, each due row and each question costs a
// call of Traits for each service.
type gate struct {
	ledger dlt.Ledger
	store  access
	o      Options
	news   func(batch.ServiceID, error) // called when a service is held, or, with a nil error, no longer held
	differ func(error)                  // called when the recorded traits are other ones

	mu     sync.Mutex
	judged map[batch.ServiceID]verdict
	kept   map[string]kept // by the name of a ledger
}

// verdict says whether a service is served.
type verdict struct {
	ledger string // its name in the traits of the service
	err    error  // nil if the service is served
}

// maxJudged is how many services the gate remembers. Past it, the gate forgets the served ones
// and judges them again.
const maxJudged = 100_000

func newGate(all common, news func(batch.ServiceID, error)) *gate {
	return &gate{
		ledger: all.ledger.Ledger, store: all.store, o: all.o, news: news,
		differ: func(err error) { all.events.Trouble("gate", err) },
		judged: map[batch.ServiceID]verdict{}, kept: map[string]kept{},
	}
}

// judge makes sure that every given service is judged. An error is the store's: some services
// are then not judged, and the caller must do nothing about any of them.
func (g *gate) judge(ctx context.Context, services []batch.ServiceID) error {
	unjudged := g.unjudged(services)
	if len(unjudged) == 0 {
		return nil
	}
	var ask []store.Served
	verdicts, traits := map[batch.ServiceID]verdict{}, map[batch.ServiceID]dlt.Traits{}
	for _, s := range unjudged {
		t, err := checkService(g.store.given(), g.ledger, s, g.o)
		want := store.Served{Service: s, Ledger: t.Name}
		if err != nil {
			// Another ledger may have its batches in flight, although this one cannot serve it. Without a
			// name Serve records nothing.
			want.Ledger = ""
			if old, known := g.verdict(s); known && old.err == nil && !panicked(err) {
				err = errors.Join(otherLedger(old.ledger, t.Name), err)
			}
		}
		verdicts[s], traits[s] = verdict{t.Name, err}, t
		if t.Name != "" {
			ask = append(ask, want)
		}
	}
	for chunk := range slices.Chunk(ask, store.MaxKeys) {
		by, err := g.store.Serve(ctx, chunk)
		if err != nil {
			return fmt.Errorf("who serves %d services: %w", len(chunk), err)
		}
		for i, s := range chunk {
			v := verdicts[s.Service]
			other := otherLedger(by[i], v.ledger)
			switch {
			case other != nil && !errors.Is(v.err, ErrOtherLedger):
				verdicts[s.Service] = verdict{v.ledger, errors.Join(other, v.err)}
			case v.err == nil:
				if err := g.keepTraits(ctx, s.Service, traits[s.Service]); err != nil {
					return err
				}
			}
		}
	}
	g.mu.Lock()
	if len(g.judged) > maxJudged {
		for s, v := range g.judged {
			if v.err == nil {
				delete(g.judged, s)
			}
		}
	}
	for s, v := range verdicts {
		old, known := g.judged[s]
		if g.judged[s] = v; known && (old.err == nil) == (v.err == nil) || !known && v.err == nil {
			delete(verdicts, s) // no news
		}
	}
	g.mu.Unlock()
	for s, v := range verdicts {
		g.news(s, v.err)
	}
	return nil
}

// unjudged returns the services without a lasting verdict about their present ledger, each once. The lock
// is not held while the application's code is called, which may panic or call the Runner.
func (g *gate) unjudged(services []batch.ServiceID) (fresh []batch.ServiceID) {
	for _, s := range services {
		if old, known := g.verdict(s); !known || panicked(old.err) || g.renamed(s, old.ledger) {
			fresh = append(fresh, s)
		}
	}
	slices.Sort(fresh)
	return slices.Compact(fresh)
}

// renamed reports whether the ledger of a service has another name now. After a panic the old name
// counts, as the traits of guard do.
func (g *gate) renamed(s batch.ServiceID, old string) bool {
	now := old
	err := loop.Contain(func() error { now = g.ledger.Traits(s).Name; return nil })
	return err == nil && now != old
}

// panicked reports whether a panic left a service without a lasting verdict: the ledger's next
// answer may give one.
func panicked(err error) bool {
	if err == nil {
		return false // as of almost every service, for each batch: what follows takes memory
	}
	var p *loop.PanicError
	return errors.As(err, &p)
}

// otherLedger returns an error if the service belongs to another ledger than the wanted one.
func otherLedger(recorded, wanted string) error {
	if recorded == "" || recorded == wanted {
		return nil
	}
	return fmt.Errorf("%w: the service is served by %q, this is %q", ErrOtherLedger, recorded, wanted)
}

// verdict returns the last verdict about a service, and whether there is one.
func (g *gate) verdict(s batch.ServiceID) (v verdict, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, known = g.judged[s]
	return v, known
}

// held returns nil for a served service. judge must have judged the service before.
func (g *gate) held(s batch.ServiceID) error {
	v, _ := g.verdict(s)
	return v.err
}

// others reports whether another ledger has the batches of a service. judge must have judged the service
// before.
func (g *gate) others(s batch.ServiceID) bool { return errors.Is(g.held(s), ErrOtherLedger) }

// open returns the lanes of the services that are served.
func (g *gate) open(ctx context.Context, lanes []batch.ServiceID) ([]batch.ServiceID, error) {
	if err := g.judge(ctx, lanes); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(lanes), func(l batch.ServiceID) bool { return g.held(l) != nil }), nil
}

// own returns the rows of the services that no other ledger serves.
func (g *gate) own(ctx context.Context, rows []store.InFlight) ([]store.InFlight, error) {
	services := make([]batch.ServiceID, len(rows))
	for i, f := range rows {
		services[i] = f.Key.Service
	}
	if err := g.judge(ctx, services); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(f store.InFlight) bool { return g.others(f.Key.Service) }), nil
}

// gatedLedger is the ledger that the submitter posts to and the monitor asks. It looks at the service
// again, because a batch is posted some time after its claim, and is asked about from memory, without
// a Pending.
type gatedLedger struct {
	dlt.Ledger
	gate *gate
}

// moved is the error for a batch whose ledger has another name than at its claim. Nothing was sent.
func (g *gate) moved(op string, s batch.ServiceID) error {
	if v, known := g.verdict(s); !known || !errors.Is(v.err, ErrOtherLedger) && !g.renamed(s, v.ledger) {
		return nil
	}
	return &dlt.Error{Op: op, Kind: dlt.ErrNotYet, Err: fmt.Errorf("%w: its route has changed since the claim", ErrOtherLedger)}
}

func (l gatedLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if err := l.gate.moved("submit", a.Service); err != nil {
		return err
	}
	return l.Ledger.Submit(ctx, a)
}

// BatchStatuses asks about the batches of the services that no other ledger has, and answers nothing
// about the rest.
func (l gatedLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	services := make([]batch.ServiceID, len(attempts))
	for i, a := range attempts {
		services[i] = a.Service
	}
	if err := l.gate.judge(ctx, services); err != nil {
		return nil, err
	}
	mine := slices.DeleteFunc(slices.Clone(attempts), func(a batch.Attempt) bool { return l.gate.others(a.Service) })
	if len(mine) == 0 {
		return nil, nil // an error would keep the monitor from asking about other services
	}
	return l.Ledger.BatchStatuses(ctx, s, mine)
}

// Prepare gives no bytes of another ledger: they would be kept with the batch.
func (l gatedLedger) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	if err := l.gate.moved("prepare", a.Service); err != nil {
		return nil, err
	}
	return l.Ledger.Prepare(ctx, a)
}

func (l gatedLedger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	if err := l.gate.moved("submit", list[0].Service); err != nil {
		return err
	}
	return l.Ledger.SubmitList(ctx, list)
}

// Resolve asks no other ledger: its records prove nothing.
func (l gatedLedger) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	if err := l.gate.judge(ctx, []batch.ServiceID{d.Service}); err != nil {
		return dlt.CannotTell, err
	}
	if l.gate.others(d.Service) {
		return dlt.CannotTell, ErrOtherLedger
	}
	return l.Ledger.Resolve(ctx, d)
}
