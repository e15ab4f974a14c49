package dlt

import "github.com/dltbatch/dltbatch/batch"

// Event is news that a ledger sends by itself.
type Event struct {
	// Service is the service of the event. If Traits.GroupsByService is false the event
	// concerns every service, and the batches of Statuses are recorded under this name.
	Service batch.ServiceID
	// Live means that the stream was just opened, or opened again: from here on it is
	// complete, but earlier events may be missing.
	Live bool
	// Statuses are verdicts, and count like answers to a status query. An event without any
	// only means: something has changed, ask now.
	Statuses []batch.Status
}
