package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Unusable remembers the names of lanes that a scan found and that no call accepts, because
// somebody has written to the tables without this package, or with another encoding. Their batches
// never leave, so a warning has to say why. Its methods may be called concurrently.
type Unusable struct {
	mu       sync.Mutex
	lastSeen map[batch.ServiceID]time.Time
}

const (
	// unusableLifetime is how long a name is reported after a scan has found it. Scans come at
	// least once a minute.
	unusableLifetime = 2 * time.Minute
	// maxUnusable is how many names are remembered. maxNamedUnusable is how many of them a warning
	// lists.
	maxUnusable, maxNamedUnusable = 100, 5
)

// Usable returns the names that calls accept, and remembers the others.
func (u *Unusable) Usable(found []batch.ServiceID) []batch.ServiceID {
	if !slices.ContainsFunc(found, func(s batch.ServiceID) bool { return !areStorable(s) }) {
		return found
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lastSeen == nil {
		u.lastSeen = map[batch.ServiceID]time.Time{}
	}
	return slices.DeleteFunc(slices.Clone(found), func(s batch.ServiceID) bool {
		if areStorable(s) {
			return false
		}
		if _, known := u.lastSeen[s]; known || len(u.lastSeen) < maxUnusable {
			u.lastSeen[s] = time.Now()
		}
		return true
	})
}

// Page reads lanes up to the limit of the query. It reads on if it leaves lanes out, since a short
// page would look like the end of a scan.
func (u *Unusable) Page(q store.LanesQuery, read func(q store.LanesQuery) ([]batch.ServiceID, error)) (lanes []batch.ServiceID, err error) {
	for {
		found, err := read(q)
		if err != nil {
			return nil, err
		}
		usable := u.Usable(found)
		lanes = append(lanes, usable...)
		if len(usable) == len(found) || len(found) < q.Limit {
			return lanes, nil
		}
		last := found[len(found)-1]
		if !q.Start && last == q.After { // a database that sorts this name differently
			return lanes, nil
		}
		q.After, q.Start, q.Limit = last, false, q.Limit-len(usable)
	}
}

// Warnings returns a warning about the names that scans found lately, if there are any.
func (u *Unusable) Warnings(now time.Time) []store.Warning {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.lastSeen, func(_ batch.ServiceID, at time.Time) bool { return now.Sub(at) >= unusableLifetime })
	if len(u.lastSeen) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(u.lastSeen))
	var quoted []string
	for _, s := range names[:min(len(names), maxNamedUnusable)] {
		quoted = append(quoted, fmt.Sprintf("%.64q", string(s)))
	}
	return []store.Warning{{Name: "unusable names", Err: fmt.Errorf("dltbatch: the batches of %d services never leave, because no call takes such a name: %s: "+
		"somebody has written it without this library, or with another encoding", len(names), strings.Join(quoted, ", "))}}
}
