package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// refusal is a request that found no free hand.
type refusal struct {
	keys  []batch.Key
	askAt time.Time // when its questions come again by themselves
}

// refusals are the requests that wait for a hand, the oldest first. They are used under the
// table's lock.
type refusals []refusal

// add remembers a refusal. It forgets refusals whose questions have come due by themselves.
func (r *refusals) add(one refusal, now time.Time) {
	for len(*r) > 0 && !now.Before((*r)[0].askAt) {
		*r = (*r)[1:]
	}
	if len(one.keys) > 0 {
		*r = append(*r, one)
	}
}
