package sqlite

import (
	"slices"
	"sync"
)

// numberSpan are numbers of batches, first and last included.
type numberSpan struct{ first, last int64 }

// ownSpans are the batches that this store has added: the caller of Add has named their lanes, so
// a listener does not name them again, which would cost a claim in vain. Its methods may be
// called concurrently.
type ownSpans struct {
	mu  sync.Mutex
	all []numberSpan // in order, none beside another
}

// maxSpans bounds the memory: a batch of a forgotten span is taken for another's.
const maxSpans = 1024

// add adds the numbers of a transaction that is about to commit.
func (s *ownSpans) add(added []numberSpan) {
	if len(added) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range added {
		if n := len(s.all); n > 0 && s.all[n-1].last+1 == a.first {
			s.all[n-1].last = a.last
		} else {
			s.all = append(s.all, a)
		}
	}
	if n := len(s.all) - maxSpans; n > 0 {
		s.all = slices.Delete(s.all, 0, n+maxSpans/2)
	}
}

// remove is for a transaction that did not commit, as far as is known: its numbers may be given
// out again.
func (s *ownSpans) remove(added []numberSpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range added {
		for i := range s.all {
			if own := &s.all[i]; own.last >= a.first { // it was added last
				own.last = a.first - 1
			}
		}
	}
	s.all = slices.DeleteFunc(s.all, func(own numberSpan) bool { return own.last < own.first })
}

// maxGaps bounds how many parts are read one by one.
const maxGaps = 8

// gaps returns the numbers from first to last that this store has not added, or all of them where
// they are in many parts.
func (s *ownSpans) gaps(first, last int64) (gaps []numberSpan) {
	all := []numberSpan{{first, last}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, own := range s.all {
		if own.last < first || own.first > last {
			continue
		}
		if first < own.first {
			gaps = append(gaps, numberSpan{first, own.first - 1})
		}
		first = own.last + 1
	}
	if first <= last {
		gaps = append(gaps, numberSpan{first, last})
	}
	if len(gaps) > maxGaps {
		return all
	}
	return gaps
}
