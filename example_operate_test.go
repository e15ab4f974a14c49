package dltbatch_test

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// unstick looks at a batch that does not move, and does what moves it.
func unstick(ctx context.Context, runner *dltbatch.Runner, key batch.Key) error {
	by := batch.By{Actor: "ada", Reason: "ticket 17"}
	why, err := runner.Explain(ctx, key)
	if err != nil {
		return err
	}
	fmt.Println(why.Text)
	switch why.Remedy {
	case batch.RemedyResume:
		_, err = runner.Resume(ctx, why.Control, by)
	case batch.RemedyRelease: // after a look at why.Blocker
		_, err = runner.Release(ctx, why.Control, by)
	case batch.RemedyDecide: // after a look at the ledger: it is not there, so send it again
		_, err = runner.Decide(ctx, why.Seen(), batch.Unknown, by)
	}
	return err
}

func Example_operate() {
	ctx := context.Background()
	runner, err := dltbatch.New(memory.New(), ledgermem.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("x")}
	if err := runner.Add(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := runner.Pause(ctx, batch.Everything(), batch.By{Actor: "bob", Reason: "upgrade of the node"}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if err := unstick(ctx, runner, b.Key()); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// queued: everything was paused by bob (upgrade of the node); resume it
	// queued: nothing holds it; the next round of a running instance takes it
}
