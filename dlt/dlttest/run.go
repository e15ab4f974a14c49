package dlttest

import (
	"context"
	"testing"
)

// TB is the part of *testing.T that the suite needs.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	FailNow()
}

// Check is one promise of the contract: Name is a word or two, Promise a sentence.
type Check struct {
	Name        string
	Promise     string
	neededFault Fault // a fault that the backend must be able to make; None if the check needs no fault
	run         func(e *checkRun)
}

// Run checks the client of h, a harness for this check alone. If [Harness.Lacks] names the fault
// that the check needs, Run logs the reason given there, and checks nothing.
func (c Check) Run(t TB, h *Harness) {
	t.Helper()
	if h == nil || h.Ledger == nil || h.Batch == nil || h.Set == nil || h.Posts == nil {
		t.Fatalf("dlttest: the harness wants a Ledger, Batch, Set and Posts")
		return
	}
	e := &checkRun{TB: t, promiseText: c.Promise, Harness: h.withDefaults()}
	if e.isLacking(c.neededFault) {
		return
	}
	e.traits = e.Ledger.Traits(e.Services[0])
	c.run(e)
}

// isLacking reports whether the backend cannot make the fault f, and logs the reason.
func (e *checkRun) isLacking(f Fault) bool {
	e.Helper()
	why, lacking := e.Lacks[f]
	if !lacking || f == None {
		return false
	}
	if why == "" {
		e.TB.Fatalf("dlttest: the harness does not say why it lacks %q", f)
		return true
	}
	e.Logf("declared: no %s: %s", f, why)
	return true
}

// Run runs all checks as subtests, each with a new harness from open. open registers its
// cleanup with t.
func Run(t *testing.T, open func(t TB) *Harness) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}

// Checks returns the suite, for callers who want their own order, or a bubble of
// testing/synctest for each check.
func Checks() []Check {
	var all []Check
	for _, group := range [...][]Check{
		harnessChecks(), acceptanceChecks(), refusalChecks(), doubtChecks(), contextChecks(),
		payloadChecks(), statusChecks(), statusFaultChecks(), queryChecks(), traitsChecks(),
		concurrencyChecks(), listChecks(), resolverChecks(), eventChecks(), checkerChecks(), preparerChecks(), errorChecks(),
	} {
		all = append(all, group...)
	}
	return all
}
