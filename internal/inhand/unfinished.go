package inhand

// Unfinished returns how many batches this process has claimed, or has found the outcome of, and has
// not written the outcome of yet.
func (t *Table) Unfinished() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.entries.slots {
		switch s.Phase {
		case Claimed, Accepted, Writing, Committing:
			n++
		}
	}
	return n
}
