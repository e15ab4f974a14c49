package dlttest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt"
)

func traitsChecks() []Check {
	return []Check{
		{
			Name:    "Traits/sound",
			Promise: "the ledger has a name, the same for every service unless it stands for several, and nothing that it declares is negative",
			run: func(e *exam) {
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
			Promise: "the client has a method for all that its traits say it can do, and for nothing else unless the harness says why",
			run: func(e *exam) {
				off := map[string]bool{}
				for _, s := range e.Services {
					t := e.Ledger.Traits(s)
					assert.NoError(e, dlt.CheckAbilities(e.Ledger, t))
					for _, a := range dlt.Abilities(e.Ledger, t) {
						if !a.Has || a.Says {
							continue
						}
						off[a.Trait] = true
						why := e.Off[a.Trait]
						assert.NotEmpty(e, strings.TrimSpace(why), "it is a %s, and Traits.%s of %q denies it: it is never called", a.Interface, a.Trait, s)
						e.Logf("declared: no %s for %q: %s", a.Trait, s, why)
					}
				}
				for trait := range e.Off {
					assert.True(e, off[trait], "Off names %q, which is not off", trait)
				}
			},
		},
		{
			Name:    "Traits/stable",
			Promise: "the answer for a service does not change while the client lives, whatever the backend does",
			run: func(e *exam) {
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
				e.committed()
				same("after a batch")
				for _, f := range [...]Fault{Busy, Unreachable, Misconfigured} {
					if _, lacking := e.Lacks[f]; lacking {
						continue
					}
					e.Set(f)
					assert.Error(e, e.submit(e.batch()))
					same(string(f))
					e.Set(None)
				}
			},
		},
		{
			Name:    "Traits/concurrent",
			Promise: "they may be asked for from anywhere at once",
			run: func(e *exam) {
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
