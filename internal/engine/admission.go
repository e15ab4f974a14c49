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
// service that is not served is held and reported once, and the other services go on.
//
// A client that stands for several ledgers (dlt.Traits.Routed) is asked again about each service
// before each claim, each POST and each question, and for each due row. If its answer has changed,
// the service is resolved and judged again. If its ledger has another name now, a batch in doubt
// must neither be asked about at the new ledger nor be sent there.
type admission struct {
	*services
	store          meteredStore
	options        Options
	serviceChanged func(batch.ServiceID, error) // called with the reason when a service is held, and with nil when it is served again
	traitsDiffer   func(error)                  // called when the recorded traits differ from the present ones

	keepMutex sync.Mutex
	records   map[string]keptRecord // record by the name of a ledger
}

func newAdmission(all common, st meteredStore, news func(batch.ServiceID, error)) *admission {
	return &admission{
		services: all.ledger.services, store: st, options: all.options, serviceChanged: news,
		traitsDiffer: func(err error) { all.events.Trouble("services", err) },
		records:      map[string]keptRecord{},
	}
}

// clientAnswer is a client's answer about a service that is to be judged.
type clientAnswer struct {
	dlt.Traits
	err error // why the service is not served; nil if it is
}

// judge judges every given service that is not judged. An error is the store's: some services are
// then not judged, and the caller must do nothing about any of them.
func (g *admission) judge(ctx context.Context, services []batch.ServiceID) error {
	unjudged := g.unjudged(services)
	if len(unjudged) == 0 {
		return nil
	}
	var ask []texts.Served
	for s, f := range unjudged {
		if f.err == nil {
			f.err = checkService(g.store.givenStore(), f.Traits, g.options)
		}
		want := texts.Served{Service: s, Ledger: f.Name}
		if f.err != nil {
			// The batches in flight of this service may belong to another ledger, although this
			// ledger cannot serve the service. Without a name texts.Serve records nothing.
			want.Ledger = ""
			if old := g.entryOf(s); old.isJudged && old.err == nil && !loop.Panicked(f.err) {
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
	// A Run that ended with ErrDrain may still be here, in a client that ignored its context. The
	// next Run has begun to judge anew, and the map belongs to the next Run.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("who serves %d services: %w", len(unjudged), err)
	}
	for s, f := range unjudged {
		if g.storeJudgement(s, f.Traits, f.err) {
			g.serviceChanged(s, f.err)
		}
	}
	return nil
}

// unjudged returns the services whose client's present answer is not judged for good. If a client
// panics, its earlier answer counts.
func (g *admission) unjudged(services []batch.ServiceID) map[batch.ServiceID]*clientAnswer {
	var out map[batch.ServiceID]*clientAnswer
	for i, s := range services {
		if i > 0 && s == services[i-1] || out[s] != nil {
			continue
		}
		f, old := clientAnswer{}, g.entryOf(s)
		lasts := old.isJudged && !loop.Panicked(old.err) // false if the next answer may give another judgement
		switch {
		case old.terms == nil || old.terms.Routed:
			f.Traits, f.err = g.askClient(s)
			if lasts && (f.err != nil || f.Traits == old.terms.Traits) {
				continue
			}
		case lasts:
			continue
		default:
			f.Traits = old.terms.Traits
		}
		if out == nil {
			out = map[batch.ServiceID]*clientAnswer{}
		}
		found := f // a copy, because only a few need memory
		out[s] = &found
	}
	return out
}

// otherLedger returns an error if the recorded ledger of a service is not the wanted one.
func otherLedger(recorded, wanted string) error {
	if recorded == "" || recorded == wanted {
		return nil
	}
	return fmt.Errorf("%w: the service is served by %q, this is %q", ErrOtherLedger, recorded, wanted)
}

// refusal returns why the service is not served, or nil if it is. The service must be judged.
func (g *admission) refusal(s batch.ServiceID) error {
	return g.entryOf(s).err
}

// ownedByOther reports whether another ledger has the batches of a service. The service must be
// judged.
func (g *admission) ownedByOther(s batch.ServiceID) bool {
	return errors.Is(g.refusal(s), ErrOtherLedger)
}

// servedLanes returns the lanes of the services that are served.
func (g *admission) servedLanes(ctx context.Context, lanes []batch.ServiceID) ([]batch.ServiceID, error) {
	if err := g.judge(ctx, lanes); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(lanes), func(l batch.ServiceID) bool { return g.refusal(l) != nil }), nil
}

// ownRows returns the rows of the services that no other ledger serves.
func (g *admission) ownRows(ctx context.Context, rows []store.InFlight) ([]store.InFlight, error) {
	services := make([]batch.ServiceID, len(rows))
	for i, f := range rows {
		services[i] = f.Key.Service
	}
	if err := g.judge(ctx, services); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(f store.InFlight) bool { return g.ownedByOther(f.Key.Service) }), nil
}

// ledgerRenamed reports whether the client now leads a service to a ledger with another name than
// the known one. After a panic of the client the known name counts.
func (g *admission) ledgerRenamed(s batch.ServiceID, known service) bool {
	if known.terms == nil || !known.terms.Routed {
		return false
	}
	now, err := g.askClient(s)
	return err == nil && now.Name != known.name()
}

// movedError returns the error for a batch whose ledger has another name than at its claim.
// Nothing was sent.
func (g *admission) movedError(op string, s batch.ServiceID) error {
	known := g.entryOf(s)
	if !known.isJudged {
		return nil
	}
	if !errors.Is(known.err, ErrOtherLedger) && !g.ledgerRenamed(s, known) {
		return nil
	}
	return &dlt.Error{Op: op, Kind: dlt.ErrNotYet, Err: fmt.Errorf("%w: its route has changed since the claim", ErrOtherLedger)}
}
