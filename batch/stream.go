package batch

import "time"

// StreamEntry is one write of the reader of a ledger's events. Age, and the times in
// [StreamFound], are durations, so that no worker's clock mixes in.
type StreamEntry struct {
	Stream string // name that the client gives the stream, at most [MaxIDLen] bytes
	Epoch  int64  // epoch of the writer's lease
	// IDs are the batches that were seen committed. Each has at most [MaxIDLen] bytes.
	IDs []string
	// Cursor is the place to go on from, in the ledger's terms. At most [MaxIDLen] bytes.
	Cursor string
	// Age is the time since the stream was last known to be complete.
	Age time.Duration
	// Restart is true if the covered span begins anew at Age, because events between the entry
	// before and this one may be missing. A stream's first entry always restarts the span, even if
	// Restart is false.
	Restart bool
}

// StreamFound is the answer of a log.
type StreamFound struct {
	// IDs are the requested ids that are in the log. They were committed, also outside the
	// covered span.
	IDs []string
	// Covered is true if there is a span without a gap. If it is false, a missing id means
	// nothing.
	Covered bool
	// Since and Until are how long ago the span without a gap began and ended.
	Since, Until time.Duration
	// Cursor of the last entry.
	Cursor string
}
