package sqlstore

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Wanted is the set of keys that one call asks for.
type Wanted struct {
	left map[batch.Key]bool
	// Never are keys that no store takes, and that must not be sent to a database.
	Never []batch.Key
}

// Want sorts the keys of a call. ids are the ids that can be stored, each once.
func Want(keys []batch.Key) (ids []batch.ID, w Wanted) {
	w.left = make(map[batch.Key]bool, len(keys))
	seen := make(map[batch.ID]bool, len(keys))
	for _, k := range keys {
		switch {
		case w.left[k] || slices.Contains(w.Never, k):
		case k.Validate() != nil:
			w.Never = append(w.Never, k)
		default:
			w.left[k] = true
			if !seen[k.ID] {
				seen[k.ID] = true
				ids = append(ids, k.ID)
			}
		}
	}
	return ids, w
}

// Take reports whether the call asked for the key, and takes the key off the list.
func (w Wanted) Take(k batch.Key) bool {
	had := w.left[k]
	delete(w.left, k)
	return had
}

// Missing returns the keys that were not taken.
func (w Wanted) Missing() []batch.Key {
	for k := range w.left {
		w.Never = append(w.Never, k)
	}
	return w.Never
}

// Services returns the services that can be stored, each once. The others have no batches, and
// must not be sent to a database.
func Services(services []batch.ServiceID) []batch.ServiceID {
	once := make([]batch.ServiceID, 0, len(services))
	seen := make(map[batch.ServiceID]bool, len(services))
	for _, s := range services {
		if key := (batch.Key{Service: s, ID: "x"}); !seen[s] && key.Validate() == nil {
			seen[s] = true
			once = append(once, s)
		}
	}
	return once
}

// Distinct drops repeated lanes.
func Distinct(lanes []batch.ServiceID) []batch.ServiceID {
	seen := make(map[batch.ServiceID]struct{}, len(lanes))
	once := make([]batch.ServiceID, 0, len(lanes))
	for _, s := range lanes {
		if _, twice := seen[s]; !twice {
			seen[s] = struct{}{}
			once = append(once, s)
		}
	}
	return once
}

// Sooner is the shorter of two waiting times; 0 means none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// Known drops zeros and repeated numbers.
func Known(seqs []int64) []int64 {
	once := make([]int64, 0, len(seqs))
	seen := make(map[int64]struct{}, len(seqs))
	for _, seq := range seqs {
		if _, twice := seen[seq]; seq != 0 && !twice {
			seen[seq] = struct{}{}
			once = append(once, seq)
		}
	}
	return once
}
