package position

import (
	"hash/maphash"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// Listed remembers which lanes have a row to lock, so that a claim can insert missing rows before
// it begins. A claim that finds a missing row is repeated from its beginning; this still happens
// with lanes that Listed does not know.
type Listed struct {
	mu    sync.Mutex
	seed  maphash.Seed
	lanes map[uint64]struct{} // hashes of the lanes
}

// maxListed bounds the number of lanes that Listed remembers. For further lanes no rows are
// inserted beforehand.
const maxListed = 1 << 16

// Without returns the lanes that are not known to have a row.
func (l *Listed) Without(lanes []batch.ServiceID) (unknown []batch.ServiceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lanes) >= maxListed {
		return nil
	}
	for _, s := range lanes {
		if _, has := l.lanes[maphash.String(l.seed, string(s))]; !has {
			unknown = append(unknown, s)
		}
	}
	return unknown
}

// Add remembers lanes that have a row.
func (l *Listed) Add(lanes []batch.ServiceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range lanes {
		if len(l.lanes) < maxListed {
			l.lanes[maphash.String(l.seed, string(s))] = struct{}{}
		}
	}
}

// forget forgets all lanes.
func (l *Listed) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lanes = map[uint64]struct{}{}
}
