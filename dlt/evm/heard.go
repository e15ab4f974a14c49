package evm

import "sync"

// refusalMemory remembers refusals that would make a batch final. The key says what was refused,
// and the value is the lowest head of the chain at which it was refused. One refusal makes no
// batch final, because the node may be behind, or contradict itself later.
type refusalMemory struct {
	mu         sync.Mutex
	firstHeads map[string]uint64
}

const maxRefusals = 10_000

// isRepeated notes a refusal at a head, and reports whether the same refusal was noted at a lower
// one.
func (h *refusalMemory) isRepeated(what string, head uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.firstHeads == nil || len(h.firstHeads) >= maxRefusals {
		h.firstHeads = map[string]uint64{}
	}
	first, there := h.firstHeads[what]
	if !there || head < first {
		h.firstHeads[what] = head
	}
	return there && first < head
}

func (h *refusalMemory) forget(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.firstHeads, what)
}
