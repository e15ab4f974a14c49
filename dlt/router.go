package dlt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/isnil"
)

// Route is a ledger and the services that it serves.
type Route struct {
	// Ledger serves the route. Its Traits give all its services one Name, which no other route
	// has.
	Ledger Ledger
	// Serves reports whether the route serves a service. It is pure and quick, and its answer
	// for a service never changes: the database records the route of a service, and another
	// route's batches are never sent. A Run that meets another answer holds the service until the
	// old answer is back. nil serves all services that no earlier route serves.
	Serves func(batch.ServiceID) bool
}

// Router is a [Ledger] made of several ledgers with their own services: for example many circuits
// on many nodes. Each ledger keeps its own name, traits and abilities, so that pressure, pauses
// and lost streams of one ledger do not affect the others. All methods may be called concurrently.
//
// Check, and so a Runner's Add, refuses a service that no route serves; a batch of such a service
// that is nevertheless stored is held. The database records the name of the route that serves the
// service "", or of the first route if none does. So a database of one ledger goes on with a
// Router in which that ledger is the first route and serves all its old services. Routes may be
// added later, for services of which no batch was ever sent.
type Router struct {
	routes      []Route
	ledgerNames string // the names of all ledgers, one on each line
}

// NewRouter returns a Router that asks routes in their order. It does no I/O. It returns a
// [*batch.InputError] for a route without a ledger or a name, for a name that two routes
// share, and for traits that contradict each other ([Traits.Validate]).
func NewRouter(routes ...Route) (*Router, error) {
	if len(routes) == 0 {
		return nil, &batch.InputError{Field: "routes", Want: "at least one"}
	}
	var shown []string
	names := map[string]bool{}
	for i, r := range routes {
		field := fmt.Sprintf("routes[%d].Ledger", i)
		if isnil.Is(r.Ledger) {
			return nil, &batch.InputError{Field: field, Want: "a ledger"}
		}
		t := r.Ledger.Traits("")
		if t.Name == "" || names[t.Name] {
			return nil, &batch.InputError{Field: field, Value: t.Name, Want: "a name in its traits that no other route has"}
		}
		names[t.Name], shown = true, append(shown, t.Name)
		if err := t.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return &Router{slices.Clone(routes), strings.Join(shown, "\n")}, nil
}

// ledgerOf returns the ledger of the service's route; nil if no route serves the service.
func (r *Router) ledgerOf(s batch.ServiceID) Ledger {
	if i := r.routeIndexOf(s); i >= 0 {
		return r.routes[i].Ledger
	}
	return nil
}

// routeIndexOf returns the index of the route that serves a service; -1 if none does. Maps have
// this index as their key, because a Ledger may have a type that cannot be a map's key.
func (r *Router) routeIndexOf(s batch.ServiceID) int {
	return slices.IndexFunc(r.routes, func(route Route) bool { return route.Serves == nil || route.Serves(s) })
}

// noRouteError returns the error for a service without a route: nothing was sent.
func noRouteError(op string, s batch.ServiceID) error {
	return &Error{Op: op, Kind: ErrMisconfigured, Message: fmt.Sprintf("no route serves the service %q", batch.Excerpt(string(s), 64))}
}

// Traits returns the traits of the service's route, but with the Router's own Checks. If no
// route serves the service they have no name. For the service "" without a route they have the
// name of the first route, and KeepsOrder if any route has it; nothing is sent under them.
func (r *Router) Traits(s batch.ServiceID) Traits {
	var t Traits
	if l := r.ledgerOf(s); l != nil {
		t = l.Traits(s)
	} else if s == "" {
		t.Name = r.routes[0].Ledger.Traits("").Name
		for _, route := range r.routes {
			t.KeepsOrder = t.KeepsOrder || route.Ledger.Traits("").KeepsOrder
		}
	}
	t.Checks, t.Routed, t.Ledgers = true, true, r.ledgerNames
	return t
}

// Check refuses a batch of a service that no route serves, and a batch that the route's ledger
// refuses.
func (r *Router) Check(b batch.Batch) error {
	l := r.ledgerOf(b.Service)
	if l == nil {
		return &batch.InputError{Key: b.Key(), Field: "ServiceID", Value: batch.Excerpt(string(b.Service), 64), Want: "a service that a route serves"}
	}
	if !l.Traits(b.Service).Checks {
		return nil
	}
	return l.Check(b)
}

// Submit passes the attempt to the ledger of its service's route.
func (r *Router) Submit(ctx context.Context, a batch.Attempt) error {
	l := r.ledgerOf(a.Service)
	if l == nil {
		return noRouteError("submit", a.Service)
	}
	return l.Submit(ctx, a)
}

// SubmitList passes a list of one service to the ledger of the service's route.
func (r *Router) SubmitList(ctx context.Context, list []batch.Attempt) error {
	service := list[0].Service
	for _, a := range list {
		if a.Service != service {
			return &Error{Op: "submit", Kind: ErrMisconfigured, Message: "a list of several services"}
		}
	}
	l := r.ledgerOf(service)
	if l == nil {
		return noRouteError("submit", service)
	}
	return l.SubmitList(ctx, list)
}

// Prepare asks the ledger of the service's route.
func (r *Router) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	l := r.ledgerOf(a.Service)
	if l == nil {
		return nil, noRouteError("prepare", a.Service)
	}
	return l.Prepare(ctx, a)
}

// Resolve asks the ledger of the service's route.
func (r *Router) Resolve(ctx context.Context, d Doubt) (Evidence, error) {
	l := r.ledgerOf(d.Service)
	if l == nil {
		return CannotTell, noRouteError("resolve", d.Service)
	}
	return l.Resolve(ctx, d)
}

// BatchStatuses asks each route about its own attempts, one after the other, in parts that the
// route's traits allow. It returns the answers that came together with the errors.
func (r *Router) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	if l := r.ledgerOf(service); l != nil && !slices.ContainsFunc(attempts, func(a batch.Attempt) bool { return a.Service != service }) {
		return l.BatchStatuses(ctx, service, attempts)
	}
	type part struct {
		route     int
		service   batch.ServiceID // "" if the ledger does not group by service
		isGrouped bool
	}
	var partsInOrder []part
	parts := map[part][]batch.Attempt{}
	var errs []error
	for _, a := range attempts {
		i := r.routeIndexOf(a.Service)
		if i < 0 {
			errs = append(errs, noRouteError("batch statuses", a.Service))
			continue
		}
		p := part{route: i}
		if r.routes[i].Ledger.Traits(a.Service).GroupsByService {
			p.service, p.isGrouped = a.Service, true
		}
		if parts[p] == nil {
			partsInOrder = append(partsInOrder, p)
		}
		parts[p] = append(parts[p], a)
	}
	var all []batch.Status
	for _, p := range partsInOrder {
		l := r.routes[p.route].Ledger
		most := l.Traits(parts[p][0].Service).MaxIDsPerQuery
		if most <= 0 {
			most = DefaultMaxIDs
		}
		for chunk := range slices.Chunk(parts[p], most) {
			found, err := l.BatchStatuses(ctx, chunk[0].Service, chunk)
			all = append(all, found...)
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return all, errors.Join(errs...)
}

// Events opens one stream for each route of the given services, and ends when the first of these
// streams ends. Events yields an event with Live once all streams are live; it drops earlier
// events, since events before Live may be missing anyway.
func (r *Router) Events(ctx context.Context, services []batch.ServiceID, yield func(Event) error) error {
	var indexesInOrder []int // the indexes of the routes
	of := map[int][]batch.ServiceID{}
	for _, s := range services {
		i := r.routeIndexOf(s)
		if i < 0 {
			return noRouteError("events", s)
		}
		if of[i] == nil {
			indexesInOrder = append(indexesInOrder, i)
		}
		of[i] = append(of[i], s)
	}
	switch len(indexesInOrder) {
	case 0:
		return &Error{Op: "events", Kind: ErrMisconfigured, Message: "no service is named, so that the route is not known"}
	case 1:
		return r.routes[indexesInOrder[0]].Ledger.Events(ctx, of[indexesInOrder[0]], yield)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	live := map[int]bool{}
	var first error
	ended := false
	for _, i := range indexesInOrder {
		wg.Go(func() {
			err := r.routes[i].Ledger.Events(ctx, of[i], func(e Event) error {
				mu.Lock()
				defer mu.Unlock()
				if ended {
					return context.Canceled
				}
				was := len(live) == len(indexesInOrder)
				live[i] = live[i] || e.Live
				switch is := len(live) == len(indexesInOrder); {
				case !is:
					return nil
				case !was:
					e.Live = true
				}
				return yield(e)
			})
			mu.Lock()
			defer mu.Unlock()
			if !ended {
				ended, first = true, err
			}
			cancel()
		})
	}
	wg.Wait()
	return first
}
