package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// refusal is a request that found no free hand.
type refusal struct {
	keys  []batch.Key
	askAt time.Time // when the questions are asked again without a free hand
}

// refusals are the requests that wait for a hand, the oldest first. The table's lock guards them.
type refusals []refusal

// add adds a refusal. It removes refusals whose questions are due again anyway.
func (r *refusals) add(one refusal, now time.Time) {
	for len(*r) > 0 && !now.Before((*r)[0].askAt) {
		*r = (*r)[1:]
	}
	if len(one.keys) > 0 {
		*r = append(*r, one)
	}
}
