package inhand

const (
	// maxFollowed bounds the entries that are asked about from memory; other batches wait for
	// their check in the store.
	maxFollowed = 10_000
	// maxWaiting bounds the outcomes that wait to be written. A ledger may report all commits that
	// it ever made; the stream then waits until some are written.
	maxWaiting = 4096
	// maxWatched bounds the commits that are watched.
	maxWatched = 10_000
)

// counts are the numbers of entries that are bounded, and the number of unfinished ones, for
// Health. The table's lock guards them.
type counts struct {
	followed      int // entries in the phases Accepted and Open
	watched       int // entries in the phase Watched
	withUnwritten int // entries with an unwritten outcome
	unfinished    int
}

// add counts an entry n times.
func (c *counts) add(e *Entry, n int) {
	if e.Phase.isFollowed() {
		c.followed += n
	}
	if e.Phase == Watched {
		c.watched += n
	}
	if e.Phase.isUnfinished() {
		c.unfinished += n
	}
	if !e.WriteAt.IsZero() {
		c.withUnwritten += n
	}
}
