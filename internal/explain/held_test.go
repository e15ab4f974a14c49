package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/store"
)

// The explanation of a final batch names a requeue only if the store can make one.
func TestRemedyOfTheEnd(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, in := range []struct {
		name   string
		row    store.Row
		remedy batch.Remedy
	}{
		{"committed", store.Row{State: batch.Committed}, batch.RemedyNone},
		{"rejected", store.Row{State: batch.Rejected, Error: &batch.SubmissionError{Kind: batch.KindRejected}}, batch.RemedyRequeue},
		{"rejected and set aside", store.Row{State: batch.Rejected, Quarantined: true}, batch.RemedyRequeue},
		{"given up by a decision", store.Row{State: batch.Rejected, Error: &batch.SubmissionError{Kind: batch.KindGivenUp}}, batch.RemedyNone},
		{"given up and set aside", store.Row{State: batch.Rejected, Quarantined: true, Error: &batch.SubmissionError{Kind: batch.KindGivenUp}}, batch.RemedyNone},
		{"its orders are settled", store.Row{State: batch.Rejected, OrdersSettled: true}, batch.RemedyNone},
	} {
		t.Run(in.name, func(t *testing.T) {
			in.row.FinalAt = now
			e := explain.Explain(store.Look{At: now, Row: in.row}, store.ClaimQuery{}, nil)
			assert.Equal(t, in.remedy, e.Remedy)
			_, err := in.row.Requeue(now, store.Requeue{})
			assert.Equal(t, err == nil, e.Remedy == batch.RemedyRequeue)
			if in.remedy == batch.RemedyNone {
				assert.NotContains(t, e.Text, "requeue")
			}
		})
	}
}
