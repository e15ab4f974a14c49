package submitter

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// lot returns how many batches of a run, from i on, go into one request. What has to be
// prepared, and what has no payload, goes alone.
func (s *Submitter) lot(r run, i int) (n int) {
	t := s.ledger.Traits(r.Service)
	if s.o.Lists == nil || t.Prepares {
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

// tellable returns of how many of n batches that were sent in one request its result is
// recorded: a success and a doubt are each one's, while a ledger that certainly took none
// says no more about the second than about those that were not sent, which are put back
// as they were. A list that was refused says nothing about any; its batches go one by one.
func tellable(n int, err error) int {
	switch dlt.Kind(err) {
	case batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured, batch.KindRejected:
		return 1
	}
	return n
}

// listed are the attempts of one request.
func listed(claims []store.Claim, payloads [][]byte) []batch.Attempt {
	list := make([]batch.Attempt, len(claims))
	for i, c := range claims {
		list[i] = batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payloads[i], Prepared: c.Prepared}
	}
	return list
}
