package position

import (
	"hash/maphash"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// LanesWithRow remembers which lanes have a row to lock, so that a claim can insert missing rows
// before it begins. A claim that finds a missing row is repeated from its beginning; this still
// happens with lanes that Listed does not know.
type LanesWithRow struct {
	mu    sync.Mutex
	seed  maphash.Seed
	lanes map[uint64]struct{} // hashes of the lanes
}

// maxLanesWithRow bounds the number of lanes that Listed remembers. For further lanes no rows are
// inserted beforehand.
const maxLanesWithRow = 1 << 16

// WithoutRow returns the lanes that are not known to have a row.
func (l *LanesWithRow) WithoutRow(lanes []batch.ServiceID) (unknown []batch.ServiceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lanes) >= maxLanesWithRow {
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
func (l *LanesWithRow) Add(lanes []batch.ServiceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range lanes {
		if len(l.lanes) < maxLanesWithRow {
			l.lanes[maphash.String(l.seed, string(s))] = struct{}{}
		}
	}
}

// forget forgets all lanes.
func (l *LanesWithRow) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lanes = map[uint64]struct{}{}
}
