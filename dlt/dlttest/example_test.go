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

// carelessClient is a client that reports every failure as ErrUnavailable.
type carelessClient struct{ *memory.Ledger }

func (c carelessClient) Submit(ctx context.Context, a batch.Attempt) error {
	if err := c.Ledger.Submit(ctx, a); err != nil {
		return fmt.Errorf("%w: %s", dlt.ErrUnavailable, err.Error())
	}
	return nil
}

// checkResult takes the place of *testing.T. The suite needs only the methods of dlttest.TB.
type checkResult struct{ hasFailed bool }

func (*checkResult) Helper()                     {}
func (*checkResult) Cleanup(func())              {}
func (*checkResult) Context() context.Context    { return context.Background() }
func (*checkResult) Logf(string, ...any)         {}
func (v *checkResult) Errorf(string, ...any)     { v.hasFailed = true }
func (v *checkResult) Fatalf(f string, a ...any) { v.Errorf(f, a...); v.FailNow() }
func (v *checkResult) FailNow()                  { v.hasFailed = true; runtime.Goexit() }

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
			Ledger: carelessClient{ledger}, Set: func(f dlttest.Fault) { fault = f },
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
		v, ended := &checkResult{}, make(chan struct{})
		go func() {
			defer close(ended)
			check.Run(v, harness)
		}()
		<-ended
		if v.hasFailed {
			fmt.Println(check.Name+":", check.Promise)
		}
	}
	// Output:
	// Refusal/busy: when the backend is busy the kind is busy, nothing was taken, and the client goes on afterwards
	// Refusal/refused: when the backend is refused the kind is rejected, nothing was taken, and the client goes on afterwards
	// Refusal/misconfigured: when the backend is misconfigured the kind is misconfigured, nothing was taken, and the client goes on afterwards
	// Refusal/not yet: when the backend is not yet the kind is not_yet, nothing was taken, and the client goes on afterwards
}
