package batch

import "time"

// StreamEntry is what the reader of a ledger's events writes down at once. Age and
// the spans of [StreamFound] are durations, so that no worker's clock mixes in.
type StreamEntry struct {
	Stream string // at most [MaxIDLen] bytes; a client names its streams
	Epoch  int64  // of the writer's lease
	// IDs that were seen committed. Each at most [MaxIDLen] bytes.
	IDs []string
	// Cursor is where to go on, in the ledger's terms. At most [MaxIDLen] bytes.
	Cursor string
	// Age is how long ago the stream was last known to have told everything.
	Age time.Duration
	// Restart says that the span covered begins anew at Age: between the entry before
	// and this one something may be missing. A stream's first entry is one, whatever it says.
	Restart bool
}

// StreamFound is what a log says.
type StreamFound struct {
	// IDs of those asked for that are in the log. They were committed, whatever the span.
	IDs []string
	// Covered says that there is a span; without it an id's absence means nothing.
	Covered bool
	// Since and Until are how long ago the span without a gap began and ended.
	Since, Until time.Duration
	// Cursor of the last entry.
	Cursor string
}
