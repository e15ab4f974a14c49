package dlttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

func traitsChecks() []Check {
	return []Check{
		{
			Name:    "Traits/sound",
			Promise: "the ledger has a name, the same for every service unless it stands for several, and nothing that it declares is negative",
			run: func(e *checkRun) {
				for _, s := range append(e.Services, "", "a service nobody heard of") {
					t := e.Ledger.Traits(s)
					assert.Equal(e, e.traits.Routed, t.Routed)
					if !t.Routed {
						assert.NotEmpty(e, t.Name)
						assert.Equal(e, e.traits.Name, t.Name)
					} else if slices.Contains(e.Services, s) {
						assert.NotEmpty(e, t.Name)
					}
					for name, d := range map[string]time.Duration{
						"ResendHarmlessFor": t.ResendHarmlessFor, "LateArrival": t.LateArrival, "Grace": t.Grace,
						"ResendQuiet": t.ResendQuiet, "Settle": t.Settle, "Stale": t.Stale, "Vanish": t.Vanish,
						"MaxIDsPerQuery": time.Duration(t.MaxIDsPerQuery), "MaxInFlightPerService": time.Duration(t.MaxInFlightPerService),
						"MaxList": time.Duration(t.MaxList), "MaxListBytes": time.Duration(t.MaxListBytes),
					} {
						assert.GreaterOrEqual(e, d, time.Duration(0), name)
					}
					assert.LessOrEqual(e, t.PressureScope, dlt.ScopeService)
				}
			},
		},
		{
			Name:    "Traits/abilities",
			Promise: "the client has the methods that its traits declare, and no others unless the harness says why",
			run: func(e *checkRun) {
				off := map[string]bool{}
				for _, s := range e.Services {
					t := e.Ledger.Traits(s)
					assert.NoError(e, t.Validate())
					for _, a := range e.methodSupports(s, t) {
						assert.True(e, a.isImplemented || !a.isDeclared, "Traits.%s of %q declares the method %s, which the client does not have", a.trait, s, a.method)
						if !a.isImplemented || a.isDeclared {
							continue
						}
						off[a.trait] = true
						why := e.SwitchedOff[a.trait]
						assert.NotEmpty(e, strings.TrimSpace(why), "the client has a method %s, and Traits.%s of %q denies it: it is never called", a.method, a.trait, s)
						e.Logf("declared: no %s for %q: %s", a.trait, s, why)
					}
				}
				for trait := range e.SwitchedOff {
					assert.True(e, off[trait], "Off names %q, which is not off", trait)
				}
			},
		},
		{
			Name:    "Traits/stable",
			Promise: "the answer for a service does not change while the client lives, whatever the backend does",
			run: func(e *checkRun) {
				same := func(when string) {
					for _, s := range e.Services {
						first := e.Ledger.Traits(s)
						for range 100 {
							assert.Equal(e, first, e.Ledger.Traits(s), when)
						}
					}
					assert.Equal(e, e.traits, e.Ledger.Traits(e.Services[0]), when)
				}
				same("at first")
				e.committedBatch()
				same("after a batch")
				for _, f := range [...]Fault{Busy, Unreachable, Misconfigured} {
					if _, lacking := e.Lacks[f]; lacking {
						continue
					}
					e.Set(f)
					assert.Error(e, e.submit(e.newBatch()))
					same(string(f))
					e.Set(None)
				}
			},
		},
		{
			Name:    "Traits/concurrent",
			Promise: "they may be asked for from anywhere at once",
			run: func(e *checkRun) {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for range 50 {
							assert.Equal(e, e.traits, e.Ledger.Traits(e.Services[0]))
						}
					})
				}
				wg.Wait()
			},
		},
	}
}

// methodSupport is a method of [dlt.Unimplemented], and whether the client has it.
type methodSupport struct {
	trait         string // the field of dlt.Traits that declares the method
	method        string
	isDeclared    bool
	isImplemented bool // true if the client has a method of its own
}

// methodSupports calls each method of dlt.Unimplemented with a context that is done. A method that
// the client does not have returns an error that wraps errors.ErrUnsupported.
func (e *checkRun) methodSupports(s batch.ServiceID, t dlt.Traits) []methodSupport {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	b := e.newBatchOf(s)
	list := []batch.Attempt{attempt(b), attempt(e.newBatchOf(s))}
	_, resolved := e.Ledger.Resolve(ctx, e.doubtOf(b))
	streamed := e.Ledger.Events(ctx, []batch.ServiceID{s}, func(dlt.Event) error { return nil })
	_, prepared := e.Ledger.Prepare(ctx, attempt(b))
	has := func(err error) bool { return !errors.Is(err, errors.ErrUnsupported) }
	return []methodSupport{
		{"Resolves", "Resolve", t.Resolves, has(resolved)},
		{"Streams", "Events", t.Streams, has(streamed)},
		{"Checks", "Check", t.Checks, has(e.Ledger.Check(b))},
		{"Prepares", "Prepare", t.Prepares, has(prepared)},
		{"MaxList", "SubmitList", t.MaxList > 1, has(e.Ledger.SubmitList(ctx, list))},
	}
}
