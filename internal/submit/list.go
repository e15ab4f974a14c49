package submit

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// listLength returns how many batches of a run, from i on, are sent in one request: as many as the
// ledger's traits allow. Batches that must be prepared are sent one by one, and a list ends before
// a batch without a payload.
func (s *sender) listLength(r run, i int) (n int) {
	t := s.ledger.Traits(r.Service)
	if t.MaxList < 2 || t.Prepares {
		return 1
	}
	size := 0
	for _, p := range r.payloads[i:] {
		if size += len(p); n > 0 && (p == nil || n >= t.MaxList || t.MaxListBytes > 0 && size > t.MaxListBytes) {
			break
		}
		n++
	}
	return n
}

// recordedPart returns for how many of the n batches of one request the result is recorded.
// Success and doubt hold for each batch. If the ledger certainly took none, only the first batch
// counts as failed, and the others are put back like batches that were not sent. A list that is
// refused, or that cannot be taken yet, does not come here: post sends its batches one by one.
func recordedPart(n int, err error) int {
	switch dlt.Kind(err) {
	case batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured, batch.KindRejected, batch.KindNotYet:
		return 1
	}
	return n
}

// attemptsOf returns the attempts of one request.
func attemptsOf(claims []store.Claim, payloads [][]byte) []batch.Attempt {
	list := make([]batch.Attempt, len(claims))
	for i, c := range claims {
		list[i] = batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payloads[i], Prepared: c.Prepared, Withdrawn: c.Withdrawn}
	}
	return list
}
