package sqlite

import (
	"slices"
	"sync"
)

// numberSpan is a span of numbers of batches, from first to last, both included.
type numberSpan struct{ first, last int64 }

// ownSpans are the batches that this store has added. The caller of Add has named their lanes, so
// a listener does not name them again, which would cause a useless claim. Its methods may be
// called concurrently.
type ownSpans struct {
	mu  sync.Mutex
	all []numberSpan // in order, and never adjacent
}

// maxSpans bounds the number of spans. A batch of a forgotten span counts as one that another
// store added.
const maxSpans = 1024

// add notes the numbers of a transaction that is about to commit.
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

// remove removes the numbers of a transaction that did not commit, or may not have, because these
// numbers may be assigned again.
func (s *ownSpans) remove(added []numberSpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range added {
		for i := range s.all {
			if own := &s.all[i]; own.last >= a.first { // the span was added last
				own.last = a.first - 1
			}
		}
	}
	s.all = slices.DeleteFunc(s.all, func(own numberSpan) bool { return own.last < own.first })
}

// maxGaps bounds how many gaps are read one by one.
const maxGaps = 8

// gaps returns the numbers from first to last that this store has not added, as spans. If there
// are too many spans, it returns the whole span.
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
