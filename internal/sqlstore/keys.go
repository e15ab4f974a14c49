package sqlstore

import (
	"maps"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// Wanted is the set of keys that one call asks for and has not found yet.
type Wanted[K comparable] map[K]bool

// Want sorts the keys of a call. ask are the keys for which fits is true, each once. The other
// keys are in no store, and a database must not be asked for them.
func Want[K comparable](keys []K, fits func(K) bool) (ask []K, w Wanted[K]) {
	w = make(Wanted[K], len(keys))
	for _, k := range keys {
		if !w[k] && fits(k) {
			ask = append(ask, k)
		}
		w[k] = true
	}
	return ask, w
}

// Take reports whether the call asked for the key, and removes the key from the set.
func (w Wanted[K]) Take(k K) bool {
	had := w[k]
	delete(w, k)
	return had
}

// Missing returns the keys that were not taken.
func (w Wanted[K]) Missing() []K { return slices.Collect(maps.Keys(w)) }

// Distinct returns list without repeated values.
func Distinct[T comparable](list []T) []T {
	seen := make(map[T]struct{}, len(list))
	once := make([]T, 0, len(list))
	for _, v := range list {
		if _, twice := seen[v]; !twice {
			seen[v] = struct{}{}
			once = append(once, v)
		}
	}
	return once
}

// Services returns the services that can be stored, each once. Others have no batches, and must
// not be sent to a database.
func Services(services []batch.ServiceID) []batch.ServiceID {
	return slices.DeleteFunc(Distinct(services), func(s batch.ServiceID) bool { return !areStorable(s) })
}

// Known returns seqs without zeros and repeated numbers.
func Known(seqs []int64) []int64 {
	return slices.DeleteFunc(Distinct(seqs), func(seq int64) bool { return seq == 0 })
}
