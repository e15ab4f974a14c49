package dlttest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/memory"
)

// careless is a client that reports every failure as ErrUnavailable.
type careless struct{ *memory.Ledger }

func (c careless) Submit(ctx context.Context, a batch.Attempt) error {
	if err := c.Ledger.Submit(ctx, a); err != nil {
		return fmt.Errorf("%w: %s", dlt.ErrUnavailable, err.Error())
	}
	return nil
}

// verdict takes the place of *testing.T. The suite needs only the methods of dlttest.TB.
type verdict struct{ failed bool }

func (*verdict) Helper()                     {}
func (*verdict) Cleanup(func())              {}
func (*verdict) Context() context.Context    { return context.Background() }
func (*verdict) Logf(string, ...any)         {}
func (v *verdict) Errorf(string, ...any)     { v.failed = true }
func (v *verdict) Fatalf(f string, a ...any) { v.Errorf(f, a...); v.FailNow() }
func (v *verdict) FailNow()                  { v.failed = true; runtime.Goexit() }

// A test calls Run, as the introduction of the package shows. This program runs only the checks of
// refusals, one by one, and prints the promises that the client breaks.
func ExampleChecks() {
	for _, check := range dlttest.Checks() {
		if !strings.HasPrefix(check.Name, "Refusal/") {
			continue
		}
		fault, made := dlttest.None, 0
		ledger := memory.New(&memory.Options{Fault: func(batch.Attempt) memory.Fault {
			return memory.Fault{Kind: map[dlttest.Fault]memory.FaultKind{
				dlttest.Busy: memory.Busy, dlttest.Refused: memory.Rejected,
				dlttest.Unreachable: memory.Unavailable, dlttest.Misconfigured: memory.Misconfigured,
				dlttest.NotYet: memory.NotYet,
			}[fault]}
		}})
		harness := &dlttest.Harness{
			Ledger: careless{ledger}, Set: func(f dlttest.Fault) { fault = f },
			Batch: func(s batch.ServiceID, content string) batch.Batch {
				made++
				return batch.Batch{ID: batch.ID(fmt.Sprintf("b%d", made)), Service: s, Payload: []byte(content)}
			},
			Posts: func(id batch.ID) (n int) {
				for _, e := range ledger.Journal() {
					if e.Kind == memory.PostStart && e.Key.ID == id {
						n++
					}
				}
				return n
			},
			Lacks: map[dlttest.Fault]string{dlttest.StatusUnreachable: "the ledger is in this process"},
		}
		v, ended := &verdict{}, make(chan struct{})
		go func() {
			defer close(ended)
			check.Run(v, harness)
		}()
		<-ended
		if v.failed {
			fmt.Println(check.Name+":", check.Promise)
		}
	}
	// Output:
	// Refusal/busy: when the backend is busy the kind is busy, nothing was taken, and the client goes on afterwards
	// Refusal/refused: when the backend is refused the kind is rejected, nothing was taken, and the client goes on afterwards
	// Refusal/misconfigured: when the backend is misconfigured the kind is misconfigured, nothing was taken, and the client goes on afterwards
	// Refusal/not yet: when the backend is not yet the kind is not_yet, nothing was taken, and the client goes on afterwards
}
