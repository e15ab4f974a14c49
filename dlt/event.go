package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// Event is what a ledger tells by itself.
type Event struct {
	// Service that it concerns. Where Traits.GroupsByService is false, every service; but
	// the batches of Statuses are recorded under this name.
	Service batch.ServiceID
	// Live says that the stream has just been opened, or opened again: from here on it
	// tells everything, and what came before may have been missed.
	Live bool
	// Statuses are verdicts, taken as if they had been asked for. Without any, the
	// event says only: something has changed, ask now.
	Statuses []batch.Status
}

// EventSource is a client that is told by its ledger (docs/glossary.md#dlt-polling-monitor, the
// event monitor). A client whose Traits say Streams implements it. Polling goes on beside it,
// more slowly: an event that never comes costs time and nothing else.
type EventSource interface {
	// Events opens one stream and hands on what it tells, an event with Live first,
	// until ctx is done (nil), yield fails (its error), or the stream breaks (any
	// other error). It does not reconnect: the caller does, with a pause. services has
	// one element where Traits.GroupsByService is set, and else names at least one of those
	// that the stream is to tell of, all of one Traits.Name. It may be called concurrently
	// for different services. Statuses that were yielded are not kept or changed.
	Events(ctx context.Context, services []batch.ServiceID, yield func(Event) error) error
}
