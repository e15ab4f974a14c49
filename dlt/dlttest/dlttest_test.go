package dlttest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/internal/hooked"
)

// openHarness returns a harness of a client with this bug; "" means without a bug.
func openHarness(t dlttest.TB, bug string) *dlttest.Harness {
	b := newBackend()
	t.Cleanup(func() { close(b.closed) })
	var ledger dlt.Ledger = &buggyClient{backend: b, bug: bug}
	if strings.HasPrefix(bug, "prepar") {
		ledger = preparingClient{&buggyClient{backend: b, bug: bug}}
	}
	return &dlttest.Harness{
		Ledger: ledger, Batch: b.newBatch, Set: b.setFault, Posts: b.postCount,
		LargestQuery: func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.largestQuery
		},
		RetryAfter: 3 * time.Second,
	}
}

// preparingClient is a client that implements Prepare, and declares Renews.
type preparingClient struct{ *buggyClient }

func (p preparingClient) Traits(s batch.ServiceID) dlt.Traits {
	t := p.buggyClient.Traits(s)
	t.Prepares, t.Renews = true, true
	t.ResendHarmlessFor, t.Withdraws = dlt.Forever, true
	return t
}

func (p preparingClient) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	switch p.bug {
	case "prepares too much":
		return make([]byte, dlt.MaxPrepared+1), nil
	case "prepares by sending":
		return []byte("kept"), p.Submit(ctx, a)
	case "prepares anew":
		return fmt.Appendf(nil, "%d", a.Number), nil
	case "prepares nothing more":
		if a.Withdrawn {
			return a.Prepared, nil
		}
	case "prepares for the withdrawn":
		return append(slices.Clone(a.Prepared), '!'), nil
	}
	if a.Withdrawn && len(a.Prepared) == 0 {
		return nil, dlt.ErrRejected
	}
	return append(slices.Clone(a.Prepared), '!'), nil
}

// TestSuiteOnAPreparingClient runs the suite on a client that prepares and keeps every promise.
func TestSuiteOnAPreparingClient(t *testing.T) {
	dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return openHarness(t, "prepares") })
}

// TestSuiteOnAGoodClient runs the suite on a client that keeps every promise.
func TestSuiteOnAGoodClient(t *testing.T) {
	dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return openHarness(t, "") })
}

// TestSuiteOnABackendWithSentinels runs the suite on a client that keeps every promise and whose
// errors are bare kinds.
func TestSuiteOnABackendWithSentinels(t *testing.T) {
	bare := func(err error) error {
		return map[batch.ErrorKind]error{
			batch.KindRejected: dlt.ErrRejected, batch.KindBusy: dlt.ErrBusy, batch.KindUnavailable: dlt.ErrUnavailable,
			batch.KindMisconfigured: dlt.ErrMisconfigured, batch.KindNotYet: dlt.ErrNotYet, batch.KindDoubt: dlt.ErrDoubt,
		}[dlt.Kind(err)]
	}
	for _, c := range dlttest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHarness(t, "")
				h.RetryAfter = 0 // only a *dlt.Error has a RetryAfter
				h.Ledger = hooked.Wrap(h.Ledger, hooked.Hooks{
					Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
						return bare(next(ctx, a))
					},
					SubmitList: func(ctx context.Context, list []batch.Attempt, next func(context.Context, []batch.Attempt) error) error {
						return bare(next(ctx, list))
					},
					BatchStatuses: func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
						statuses, err := next(ctx, s, attempts)
						return statuses, bare(err)
					},
					Resolve: func(ctx context.Context, d dlt.Doubt, next func(context.Context, dlt.Doubt) (dlt.Evidence, error)) (dlt.Evidence, error) {
						found, err := next(ctx, d)
						return found, bare(err)
					},
				})
				c.Run(t, h)
			})
		})
	}
}

// TestSuiteOnAGoodRouter runs the suite on two good clients behind a Router, whose stream has the
// events of both.
func TestSuiteOnAGoodRouter(t *testing.T) {
	for _, c := range dlttest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHarness(t, "")
				one := h.Ledger.(*buggyClient)
				r, err := dlt.NewRouter(
					dlt.Route{Ledger: one, Serves: func(s batch.ServiceID) bool { return s == "one" }},
					dlt.Route{Ledger: &buggyClient{backend: one.backend, name: "others"}},
				)
				require.NoError(t, err)
				h.Ledger = r
				c.Run(t, h)
			})
		})
	}
}

// checksByBug are clients that break a promise, each with the checks that must notice it.
var checksByBug = map[string][]string{
	"never sends":                 {"Accepted"},
	"prepares too much":           {"Prepare/sends nothing"},
	"prepares by sending":         {"Prepare/sends nothing"},
	"prepares anew":               {"Prepare/only adds"},
	"sends every second":          {"Accepted/in order"},
	"one service":                 {"Accepted/second service"},
	"invalid is committed":        {"Accepted/decided against", "Statuses/verdicts apart"},
	"swallows resends":            {"Accepted/second attempt"},
	"resends when busy":           {"Refusal/busy"},
	"everything is doubt":         {"Refusal/busy", "Refusal/refused", "Refusal/unreachable", "Refusal/misconfigured", "Refusal/not yet"},
	"everything is rejected":      {"Refusal/misconfigured", "Doubt/lost reply", "Doubt/lost request", "Doubt/unheard answer", "Doubt/redirect"},
	"untyped":                     {"Refusal/unreachable"},
	"nameless":                    {"Errors/unreachable", "Errors/refused", "Errors/lost request"},
	"errors are unknown":          {"Refusal/unreachable statuses", "Statuses/garbage", "Context/statuses"},
	"errors are empty answers":    {"Refusal/unreachable statuses", "Statuses/lost"},
	"resends":                     {"Doubt/lost reply", "Doubt/many lost replies", "Doubt/lost request"},
	"resends on used connections": {"Doubt/many lost replies"},
	"resets are certain":          {"Doubt/lost reply", "Doubt/lost request"},
	"silence is consent":          {"Doubt/unheard answer"},
	"follows redirects":           {"Doubt/redirect", "Errors/redirect"},
	"no contexts":                 {"Context/deadline", "Context/cancel"},
	"deadlines only":              {"Context/cancel"},
	"statuses without contexts":   {"Context/statuses"},
	"done is rejected":            {"Context/done"},
	"changes payloads":            {"Slices/payload"},
	"sorts attempts":              {"Slices/attempts"},
	"unknown is pending":          {"Statuses/never sent", "Statuses/by id"},
	"first word for all":          {"Statuses/by id", "Statuses/verdicts apart"},
	"by position":                 {"Statuses/shuffled"},
	"no id twice":                 {"Statuses/asked twice"},
	"attempt seven":               {"Statuses/attempt"},
	"new words are pending":       {"Statuses/unknown word"},
	"missing is unknown":          {"Statuses/missing"},
	"keeps strangers":             {"Statuses/stranger"},
	"ten at most":                 {"Queries/as many as declared"},
	"no parts":                    {"Queries/size"},
	"groups one service":          {"Queries/services"},
	"no name":                     {"Traits/sound"},
	"a trait too many":            {"Traits/abilities"},
	"a trait too few":             {"Traits/abilities"},
	"traits wander":               {"Traits/stable", "Traits/concurrent"},
	"one hand":                    {"Concurrency"},
	"half a list":                 {"SubmitList/accepted"},
	"takes the rest of a list":    {"SubmitList/refused"},
	"lists are doubt":             {"SubmitList/refused", "SubmitList/not taken"},
	"resends lists":               {"SubmitList/doubt"},
	"always committed":            {"Resolve/lost request", "Resolve/decided against", "Resolve/unreachable", "Resolve/context"},
	"never committed":             {"Resolve/committed", "Resolve/lost reply", "Resolve/unreachable"},
	"not live":                    {"Events/live first", "Events/commit"},
	"tells nothing":               {"Events/commit", "Events/second service", "Events/two at once"},
	"one stream at a time":        {"Events/two at once"},
	"a done context is an error":  {"Events/done"},
	"the end is an error":         {"Events/live first"},
	"never ends":                  {"Events/live first", "Events/no leak"},
	"deaf to yield":               {"Events/yield"},
	"a cut is silence":            {"Events/cut"},
	"a cut is the end":            {"Events/cut", "Events/unreachable"},
	"opens to nobody":             {"Events/unreachable"},
	"leaks":                       {"Events/no leak"},
	"refuses all":                 {"Check/good"},
	"bends payloads":              {"Check/pure"},
	"panics":                      {"Check/garbage"},
	"says any error":              {"Check/garbage"},
	"prepares for the withdrawn":  {"Prepare/excludes"},
	"prepares nothing more":       {"Prepare/excludes"},
	"shows payloads": {
		"Errors/busy", "Errors/refused", "Errors/unreachable", "Errors/misconfigured", "Errors/not yet", "Errors/lost request", "Errors/lost reply",
		"Errors/hang", "Errors/unheard answer", "Errors/redirect",
	},
}

// TestEachBugIsNoticed shows that the named checks fail on each broken client.
func TestEachBugIsNoticed(t *testing.T) {
	for bug, names := range checksByBug {
		for _, name := range names {
			t.Run(bug+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := checkNamed(t, name)
					require.NotEmpty(t, runRecorded(t, c, func(t dlttest.TB) *dlttest.Harness { return openHarness(t, bug) }), "nobody noticed")
					require.Empty(t, runRecorded(t, c, func(t dlttest.TB) *dlttest.Harness { return openHarness(t, "") }), "without the bug")
				})
			})
		}
	}
}

// TestEveryCheckCanFail shows that each check has a broken client that it notices.
func TestEveryCheckCanFail(t *testing.T) {
	caught := map[string]bool{"Harness": true} // TestHarness shows this
	for _, names := range checksByBug {
		for _, name := range names {
			caught[name] = true
		}
	}
	names := map[string]bool{}
	for _, c := range dlttest.Checks() {
		assert.True(t, caught[c.Name], "no bug makes %q fail", c.Name)
		assert.NotEmpty(t, c.Promise)
		assert.False(t, names[c.Name], "two checks named %q", c.Name)
		names[c.Name] = true
	}
}

// TestHarness shows that a harness with a mistake is refused.
func TestHarness(t *testing.T) {
	for name, spoil := range map[string]func(h *dlttest.Harness){
		"no fault of that name": func(h *dlttest.Harness) { h.Lacks = map[dlttest.Fault]string{"bussy": "so"} },
		"no reason":             func(h *dlttest.Harness) { h.Lacks = map[dlttest.Fault]string{dlttest.Busy: " "} },
		"one service":           func(h *dlttest.Harness) { h.Services = []batch.ServiceID{"one"} },
		"queries not declared":  func(h *dlttest.Harness) { h.LargestQuery = nil },
		"nothing to submit to":  func(h *dlttest.Harness) { h.Set = nil },
		"same batch again": func(h *dlttest.Harness) {
			b := h.Batch("one", "content")
			h.Batch = func(s batch.ServiceID, _ string) batch.Batch { b.Service = s; return b }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.NotEmpty(t, runRecorded(t, checkNamed(t, "Harness"), func(t dlttest.TB) *dlttest.Harness {
					h := openHarness(t, "")
					spoil(h)
					return h
				}))
			})
		})
	}
}

// TestAFaultThatIsLackingIsNotTried shows that a fault which the harness lacks is not tried, and
// that the log has the reason. Without a reason the check fails.
func TestAFaultThatIsLackingIsNotTried(t *testing.T) {
	for why, fails := range map[string]bool{"its queue has no end": false, "": true} {
		r := &recorder{ctx: t.Context()}
		r.run(func() {
			h := openHarness(r, "everything is doubt")
			h.Lacks = map[dlttest.Fault]string{dlttest.Busy: why}
			checkNamed(t, "Refusal/busy").Run(r, h)
		})
		assert.Equal(t, fails, len(r.failures) > 0)
		if !fails {
			assert.Contains(t, strings.Join(r.logs, "\n"), why)
		}
	}
}

func checkNamed(t *testing.T, name string) dlttest.Check {
	for _, c := range dlttest.Checks() {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no such check", name)
	return dlttest.Check{}
}

// runRecorded runs a check and returns its failures.
func runRecorded(t *testing.T, c dlttest.Check, open func(t dlttest.TB) *dlttest.Harness) []string {
	r := &recorder{ctx: t.Context()}
	r.run(func() { c.Run(r, open(r)) })
	for _, f := range r.failures {
		if !strings.HasPrefix(f, "dlttest: ") { // a failure of the harness begins so
			assert.Contains(t, f, c.Promise, "a failure says which promise is broken")
		}
	}
	return r.failures
}

// recorder is a TB that records the failures of a check.
type recorder struct {
	ctx      context.Context
	mu       sync.Mutex
	failures []string
	logs     []string
	cleanups []func()
}

func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	for _, f := range r.cleanups {
		f()
	}
}

func (r *recorder) Helper()                  {}
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) FailNow()                 { runtime.Goexit() }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}
