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
	closedAt      time.Time
	xid           uint64              // a transaction id that was assigned after the generation was closed; 0 before that
	xidAt         time.Time           // when the id was assigned
	lockReadAsked bool                // true if a claim was asked to read the holders of the lock
	locksRead     bool                // true if the holders were read
	locksReadAt   time.Time           // when the holders were first read
	lockHolders   map[string]struct{} // the virtual transactions for which the generation waits
}

// add keeps the highest candidate of each lane.
func (g *generation) add(lane batch.ServiceID, key int64, limit int) {
	if was, ok := g.candidates[lane]; ok || len(g.candidates) < limit {
		g.candidates[lane] = max(was, key)
	}
}

// sealedBy reports whether all transactions that may have missed a candidate have ended. All ids
// below xmin have ended.
func (g *generation) sealedBy(xmin uint64) bool { return g.xid != 0 && xmin > g.xid }

// setHolders keeps the first list of holders of the lock.
func (g *generation) setHolders(held []string, now time.Time) {
	g.locksRead, g.locksReadAt, g.lockHolders = true, now, make(map[string]struct{}, len(held))
	for _, v := range held {
		g.lockHolders[v] = struct{}{}
	}
}

// dropEnded compares a later list: a holder that no longer holds the lock has ended.
func (g *generation) dropEnded(held []string) {
	left := make(map[string]struct{})
	for _, v := range held {
		if _, ok := g.lockHolders[v]; ok || hasLostName(v) {
			left[v] = struct{}{}
		}
	}
	g.lockHolders = left
}

// allEnded reports whether all holders of the lock have ended.
func (g *generation) allEnded() bool { return g.locksRead && len(g.lockHolders) == 0 }

// hasLostName reports whether virtual is the name of a prepared transaction that has lost its
// earlier name.
func hasLostName(virtual string) bool { return strings.HasPrefix(virtual, "-1/") }

// someHolders returns at most ten of the holders.
func (g *generation) someHolders() []string {
	all := slices.Sorted(maps.Keys(g.lockHolders))
	return all[:min(len(all), 10)]
}
