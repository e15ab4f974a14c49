package order

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Record is a stored order as the application sees it, without its payload. Times are the
// database's, in UTC, to the microsecond.
type Record struct {
	ID        ID              `json:"id"`
	Party     batch.ServiceID `json:"party"`
	Key       string          `json:"key,omitzero"`
	Priority  int             `json:"priority,omitzero"`
	Urgent    bool            `json:"urgent,omitzero"`
	Deadline  time.Time       `json:"deadline,omitzero"`
	State     State           `json:"state"`
	Version   int64           `json:"version"` // grows with every change
	CreatedAt time.Time       `json:"created_at"`
	FinalAt   time.Time       `json:"final_at,omitzero"`
	// Batch is the batch that the order is, or was last, part of; "" before the first.
	Batch batch.ID `json:"batch,omitzero"`
	// Group is the group that a refusal split the order into; "" if there was none.
	Group string `json:"group,omitzero"`
	// Batches counts the batches that the order has been part of.
	Batches     int                    `json:"batches"`
	TraceParent string                 `json:"trace_parent,omitzero"` // the trace context of the order
	Error       *batch.SubmissionError `json:"error,omitzero"`        // why it Failed or is Quarantined
}
