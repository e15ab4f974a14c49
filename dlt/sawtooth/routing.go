package sawtooth

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

const (
	maxEndpoints = 64     // the bits of a mask
	halfSize     = 50_000 // ids in each of the two halves
)

// endpointMemory records where batches were sent, as a mask of endpoints. It holds the last 50,000
// to 100,000 ids; the client asks every endpoint about an id that is not in it.
type endpointMemory struct {
	mu       sync.Mutex
	new, old map[batch.ID]uint64
}

func (m *endpointMemory) add(id batch.ID, endpoint uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mask := m.new[id] | m.old[id] | 1<<endpoint
	if m.new == nil || len(m.new) >= halfSize {
		m.old, m.new = m.new, make(map[batch.ID]uint64)
	}
	m.new[id] = mask
}

// mask returns 0 for an id that it does not know.
func (m *endpointMemory) mask(id batch.ID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.new[id] | m.old[id]
}

func (m *endpointMemory) forget(id batch.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.new, id)
	delete(m.old, id)
}
