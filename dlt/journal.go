package dlt

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Journal is what a client persists of a ledger's stream of events: the ids it saw
// committed, and for what span of time nothing can be missing among them. Stores
// implement it; a client gets it through its options. Every stream has at most one
// writer at a time. All methods may be called concurrently, from any number of
// processes; none retries, and none keeps a slice.
type Journal interface {
	// LeaseStream makes holder the stream's only writer for ttl on the database's
	// clock, or renews that. held is false while another has it. Each change of
	// holder, and each lease after an expired one, has a higher epoch.
	LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error)
	// AppendStream writes an entry, all of it or nothing. held is false, and nothing is
	// written, where the epoch's lease is over. An id that is in the log already is
	// left as it is.
	AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error)
	// FindStream says which of ids are in the log, and what span it covers.
	FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error)
}
