package submitter_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// An attempt at a busy ledger certainly has no effect. An attempt over a connection that broke may
// have one.
func ExampleJudge() {
	claim := store.Claim{Attempt: 1, From: batch.Queued}
	rules := submitter.Rules{FirstCheck: 10 * time.Millisecond, Delay: func(_ batch.ServiceID, n int) time.Duration {
		return time.Duration(n) * time.Second
	}}
	for _, err := range []error{nil, dlt.ErrBusy, errors.New("connection reset")} {
		o := submitter.Judge(claim, err, true, rules)
		fmt.Println(err, "->", o.Finding, o.Delay)
	}
	// Output:
	// <nil> -> accepted 0s
	// ledger busy -> failed 1s
	// connection reset -> doubtful 0s
}
