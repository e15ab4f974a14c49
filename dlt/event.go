package dlt

import "github.com/dltbatch/dltbatch/batch"

// Event is news that a ledger sends by itself.
type Event struct {
	// Service is the service of the event. If Traits.GroupsByService is false the event
	// concerns every service, and the batches of Statuses are recorded under this name.
	Service batch.ServiceID
	// Live is true if the stream was just opened, or opened again: from this event on the stream
	// is complete, but earlier events may be missing.
	Live bool
	// Statuses are statuses of batches, and count like answers to a status query. An event without
	// Statuses only means that something has changed, so that the caller asks now.
	Statuses []batch.Status
}
