package health_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/health"
)

// A Runner's ledger has refused connections for two minutes.
func ExampleHealth_Attention() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := health.Health{Running: true, Store: health.PartHealth{Condition: health.ConditionOK, LastSuccess: now}, Ledger: health.PartHealth{
		Condition: health.ConditionFailing, FailingSince: now.Add(-2 * time.Minute), Failures: 40, Err: errors.New("connection refused"),
	}}
	for _, cause := range h.Attention(now) {
		fmt.Println(cause.Part, "since", cause.Since.Format(time.TimeOnly))
	}
	h.Ledger = health.PartHealth{Condition: health.ConditionOK, LastSuccess: now}
	fmt.Println(h.Attention(now.Add(time.Second)))
	// Output:
	// ledger since 03:02:05
	// []
}
