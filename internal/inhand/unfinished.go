package inhand

// isUnfinished reports whether this process has claimed the batch, or has found its outcome, and
// has not written the outcome yet.
func (p Phase) isUnfinished() bool {
	switch p {
	case Claimed, Accepted, Writing, Committing:
		return true
	}
	return false
}

// Unfinished returns how many batches this process has claimed, or has found the outcome of, and
// has not written the outcome of yet.
func (t *Table) Unfinished() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries.counts.unfinished
}
