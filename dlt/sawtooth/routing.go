package sawtooth

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

const (
	maxEndpoints = 64     // the number of bits in a mask
	maxHalf      = 50_000 // how many ids each of the two halves has at most
)

// endpointMemory remembers to which endpoints each batch was sent, as a bit mask. It has room for
// the last 50,000 to 100,000 ids. The client asks every endpoint about any other id.
type endpointMemory struct {
	mu               sync.Mutex
	newHalf, oldHalf map[batch.ID]uint64
}

func (m *endpointMemory) add(id batch.ID, endpoint uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mask := m.newHalf[id] | m.oldHalf[id] | 1<<endpoint
	if m.newHalf == nil || len(m.newHalf) >= maxHalf {
		m.oldHalf, m.newHalf = m.newHalf, make(map[batch.ID]uint64)
	}
	m.newHalf[id] = mask
}

// mask returns the endpoints of an id; 0 if the id is not remembered.
func (m *endpointMemory) mask(id batch.ID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newHalf[id] | m.oldHalf[id]
}

func (m *endpointMemory) forget(id batch.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.newHalf, id)
	delete(m.oldHalf, id)
}
