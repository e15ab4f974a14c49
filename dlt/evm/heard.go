package evm

import "sync"

// heard remembers refusals that would end a batch for good, by what was refused, and at which head
// of the chain they were heard first. One word of one node ends nothing: the node may be behind,
// or at odds with itself.
type heard struct {
	mu sync.Mutex
	by map[string]uint64
}

const maxHeard = 10_000

// earlier notes a refusal at a head, and reports whether the same was heard at a lower one.
func (h *heard) earlier(what string, head uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil || len(h.by) >= maxHeard {
		h.by = map[string]uint64{}
	}
	first, there := h.by[what]
	if !there || head < first {
		h.by[what] = head
	}
	return there && first < head
}

func (h *heard) forget(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, what)
}
