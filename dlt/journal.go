package dlt

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Journal stores a client's record of a ledger's event stream: the ids that it saw committed,
// and the span of time in which none can be missing. Stores implement it; a client gets it
// through its options. Every stream has at most one writer at a time. All methods may be
// called concurrently, from any number of processes. No method retries, and none keeps a
// slice.
type Journal interface {
	// LeaseStream makes holder the stream's only writer for ttl on the database's clock, or renews
	// its lease. held is false while another holder has the lease. Each change of holder, and each
	// lease after an expired one, has a higher epoch.
	LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error)
	// AppendStream writes the whole entry or nothing. If the epoch's lease is over, AppendStream
	// writes nothing, and held is false. Ids that are already in the log stay as they are.
	AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error)
	// FindStream returns the ids that are in the log, and the span that the log covers.
	FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error)
}
