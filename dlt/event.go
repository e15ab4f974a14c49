package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

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

// EventSource is a client whose ledger sends events (docs/glossary.md#dlt-polling-monitor, the
// event monitor). A client whose Traits declare Streams implements it. Polling goes on beside
// it, more slowly: an event that never comes costs time and nothing else.
type EventSource interface {
	// Events opens one stream and passes its events to yield, an event with Live first. It
	// returns nil when ctx is done, yield's error when yield fails, and any other error when
	// the stream breaks. It does not reconnect: the caller does, after a pause. If
	// Traits.GroupsByService is set, services has one element. Else it has at least one of the
	// services whose events are wanted, all with one Traits.Name. Events may be called
	// concurrently for different services. It must not keep or change Statuses that it has
	// yielded.
	Events(ctx context.Context, services []batch.ServiceID, yield func(Event) error) error
}
