package monitor_test

import (
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// A ledger gives three answers about the same row.
func ExampleDecide() {
	row := store.InFlight{State: batch.Pending, Attempt: 1, PostedAgo: 5 * time.Second}
	traits := dlt.Traits{Name: "mine", Grace: time.Minute}
	settings := monitor.Rules{
		TTL: time.Minute, FirstPoll: 10 * time.Millisecond, PollInterval: time.Second, StuckAfter: time.Hour,
		Delay: func(batch.ServiceID, int) time.Duration { return time.Second },
	}
	for _, word := range []batch.Reported{batch.ReportedCommitted, batch.ReportedPending, batch.ReportedUnknown} {
		v := monitor.Decide(row, monitor.Known{Status: &batch.Status{Reported: word}}, traits, settings)
		if v.Outcome != nil {
			fmt.Println(word, "is recorded:", v.Outcome.Finding)
		} else {
			fmt.Println(word, "changes nothing; ask again in", v.Next)
		}
	}
	// Output:
	// committed is recorded: is committed
	// pending changes nothing; ask again in 1s
	// unknown changes nothing; ask again in 1s
}
