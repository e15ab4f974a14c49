package position

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// generation is a set of candidates that are sealed together.
type generation struct {
	id            int64
	candidates    map[batch.ServiceID]int64
	closed        time.Time
	xid           uint64              // a transaction id that was given out after it was closed; 0: none yet
	xidAt         time.Time           // when the id was given out
	lockReadAsked bool                // a claim was asked to read the holders
	locksRead     bool                // the holders were read
	locksReadAt   time.Time           // when they were read first
	holders       map[string]struct{} // virtual transactions that hold it up
}

// add keeps the highest candidate of each lane.
func (g *generation) add(lane batch.ServiceID, key int64, limit int) {
	if was, ok := g.candidates[lane]; ok || len(g.candidates) < limit {
		g.candidates[lane] = max(was, key)
	}
}

// sealedBy reports whether all transactions that may have missed a candidate have ended, given
// that all ids below xmin have.
func (g *generation) sealedBy(xmin uint64) bool { return g.xid != 0 && xmin > g.xid }

// setHolders takes the first list of the holders of the lock.
func (g *generation) setHolders(held []string, now time.Time) {
	g.locksRead, g.locksReadAt, g.holders = true, now, make(map[string]struct{}, len(held))
	for _, v := range held {
		g.holders[v] = struct{}{}
	}
}

// dropEnded takes a later reading: a holder that no longer holds the lock has ended.
func (g *generation) dropEnded(held []string) {
	left := make(map[string]struct{})
	for _, v := range held {
		if _, ok := g.holders[v]; ok || nameless(v) {
			left[v] = struct{}{}
		}
	}
	g.holders = left
}

// allEnded reports whether all holders of the lock have ended.
func (g *generation) allEnded() bool { return g.locksRead && len(g.holders) == 0 }

// nameless reports whether virtual names a prepared transaction that has lost its old name.
func nameless(virtual string) bool { return strings.HasPrefix(virtual, "-1/") }

// someHolders returns a few of the holders.
func (g *generation) someHolders() []string {
	all := slices.Sorted(maps.Keys(g.holders))
	return all[:min(len(all), 10)]
}
