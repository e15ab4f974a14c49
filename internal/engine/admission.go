package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// admission decides for each service, when a Run first meets it, whether this Run serves it. A
// service that is not served is held, and reported once; the other services go on.
//
// A client that stands for several ledgers (dlt.Traits.Routed) is asked again about each service
// before each claim, each POST and each question, and for each due row: where it answers otherwise
// than before, the service is resolved and judged again. If its ledger has another name now, its
// batch in doubt must neither be asked about at the new ledger nor be sent there.
type admission struct {
	*services
	store  access
	o      Options
	news   func(batch.ServiceID, error) // called when a service is held, or, with a nil error, no longer held
	differ func(error)                  // called when the recorded traits are other ones

	keeping sync.Mutex
	kept    map[string]kept // by the name of a ledger
}

func newAdmission(all common, st access, news func(batch.ServiceID, error)) *admission {
	return &admission{
		services: all.ledger.services, store: st, o: all.o, news: news,
		differ: func(err error) { all.events.Trouble("services", err) },
		kept:   map[string]kept{},
	}
}

// fresh is a client's answer about a service that is to be judged.
type fresh struct {
	dlt.Traits
	err error // why the service is not served
}

// judge makes sure that every given service is judged. An error is the store's: some services
// are then not judged, and the caller must do nothing about any of them.
func (g *admission) judge(ctx context.Context, services []batch.ServiceID) error {
	unjudged := g.unjudged(services)
	if len(unjudged) == 0 {
		return nil
	}
	var ask []texts.Served
	for s, f := range unjudged {
		if f.err == nil {
			f.err = checkService(g.store.given(), f.Traits, g.o)
		}
		want := texts.Served{Service: s, Ledger: f.Name}
		if f.err != nil {
			// Another ledger may have its batches in flight, although this one cannot serve it.
			// Without a name texts.Serve records nothing.
			want.Ledger = ""
			if old := g.known(s); old.judged && old.err == nil && !loop.Panicked(f.err) {
				f.err = errors.Join(otherLedger(old.name(), f.Name), f.err)
			}
		}
		if f.Name != "" {
			ask = append(ask, want)
		}
	}
	slices.SortFunc(ask, func(a, b texts.Served) int { return cmp.Compare(a.Service, b.Service) })
	for chunk := range slices.Chunk(ask, store.MaxKeys) {
		by, err := texts.Serve(ctx, g.store, chunk)
		if err != nil {
			return fmt.Errorf("who serves %d services: %w", len(chunk), err)
		}
		for i, s := range chunk {
			f := unjudged[s.Service]
			other := otherLedger(by[i], f.Name)
			switch {
			case other != nil && !errors.Is(f.err, ErrOtherLedger):
				f.err = errors.Join(other, f.err)
			case f.err == nil:
				if err := g.keepTraits(ctx, s.Service, f.Traits); err != nil {
					return err
				}
			}
		}
	}
	// A Run that ErrDrain gave up may still be here, in a client that ignored its context. The
	// next Run has begun to judge anew by then, and the map is its.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("who serves %d services: %w", len(unjudged), err)
	}
	for s, f := range unjudged {
		if g.resolve(s, f.Traits, f.err) {
			g.news(s, f.err)
		}
	}
	return nil
}

// unjudged returns the services without a lasting judgement of their client's present answer.
// Where a client panics, its answer before counts.
func (g *admission) unjudged(services []batch.ServiceID) map[batch.ServiceID]*fresh {
	var out map[batch.ServiceID]*fresh
	for i, s := range services {
		if i > 0 && s == services[i-1] || out[s] != nil {
			continue
		}
		f, old := fresh{}, g.known(s)
		lasts := old.judged && !loop.Panicked(old.err) // the next answer may give another judgement
		switch {
		case old.terms == nil || old.terms.Routed:
			f.Traits, f.err = g.ask(s)
			if lasts && (f.err != nil || f.Traits == old.terms.Traits) {
				continue
			}
		case lasts:
			continue
		default:
			f.Traits = old.terms.Traits
		}
		if out == nil {
			out = map[batch.ServiceID]*fresh{}
		}
		found := f // few need memory
		out[s] = &found
	}
	return out
}

// otherLedger returns an error if the service belongs to another ledger than the wanted one.
func otherLedger(recorded, wanted string) error {
	if recorded == "" || recorded == wanted {
		return nil
	}
	return fmt.Errorf("%w: the service is served by %q, this is %q", ErrOtherLedger, recorded, wanted)
}

// held returns nil for a served service. judge must have judged the service before.
func (g *admission) held(s batch.ServiceID) error {
	return g.known(s).err
}

// others reports whether another ledger has the batches of a service. judge must have judged the
// service before.
func (g *admission) others(s batch.ServiceID) bool { return errors.Is(g.held(s), ErrOtherLedger) }

// open returns the lanes of the services that are served.
func (g *admission) open(ctx context.Context, lanes []batch.ServiceID) ([]batch.ServiceID, error) {
	if err := g.judge(ctx, lanes); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(lanes), func(l batch.ServiceID) bool { return g.held(l) != nil }), nil
}

// own returns the rows of the services that no other ledger serves.
func (g *admission) own(ctx context.Context, rows []store.InFlight) ([]store.InFlight, error) {
	services := make([]batch.ServiceID, len(rows))
	for i, f := range rows {
		services[i] = f.Key.Service
	}
	if err := g.judge(ctx, services); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(f store.InFlight) bool { return g.others(f.Key.Service) }), nil
}

// renamed reports whether a route leads a service to a ledger of another name than the known one.
// After a panic of the client the known name counts.
func (g *admission) renamed(s batch.ServiceID, known service) bool {
	if known.terms == nil || !known.terms.Routed {
		return false
	}
	now, err := g.ask(s)
	return err == nil && now.Name != known.name()
}

// moved returns the error for a batch whose ledger has another name than at its claim. Nothing was
// sent.
func (g *admission) moved(op string, s batch.ServiceID) error {
	known := g.known(s)
	if !known.judged {
		return nil
	}
	if !errors.Is(known.err, ErrOtherLedger) && !g.renamed(s, known) {
		return nil
	}
	return &dlt.Error{Op: op, Kind: dlt.ErrNotYet, Err: fmt.Errorf("%w: its route has changed since the claim", ErrOtherLedger)}
}
