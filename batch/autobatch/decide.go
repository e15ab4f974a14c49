package autobatch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/legible"
)

// keysAhead is longer than the orders of one call can be ahead of the clock: their keys are a
// microsecond apart.
const keysAhead = time.Second

// waitLeft returns how long the orders of an idle party still wait: 0 or less means that they do
// not. The first limit that is reached counts: number, bytes or age.
func (o Options) waitLeft(l order.PartyLoad) time.Duration {
	if l.Urgent || l.Split || l.Orders >= o.MaxSize || (o.MaxBytes > 0 && l.Bytes >= o.MaxBytes) {
		return 0
	}
	if l.Oldest < -keysAhead { // the clock stepped back, and the age is not known
		return 0
	}
	return o.FlushAge - l.Oldest
}

// settlementOf returns the new states of a batch's orders. It returns false while these are open:
// the batch is not final, or an attempt of it is in doubt and may still be executed.
//
// A refusal divides the orders into halves. The func never concludes which order is at fault, not
// even if the ledger names it or the other half was committed (docs/design.md#auto-batching).
func settlementOf(b order.Batch) (order.Settlement, bool) {
	s := order.Settlement{Batch: b.Record.Key, Version: b.Record.Version, TraceParent: b.Record.TraceParent}
	all := func(state order.State, group string, err *batch.SubmissionError) (order.Settlement, bool) {
		s.Orders = make([]order.Verdict, len(b.Orders))
		for i, ref := range b.Orders {
			s.Orders[i] = order.Verdict{Ref: ref, State: state, Group: group, Error: err}
		}
		return s, true
	}
	switch rec := b.Record; {
	case !rec.Final():
		return s, false
	case rec.State == batch.Committed:
		return all(order.Confirmed, "", nil)
	case !rec.DoubtSince.IsZero():
		return s, false
	case refusedForGood(rec):
		if len(b.Orders) == 1 {
			return all(order.Quarantined, "", rec.Error)
		}
		s.Orders = splitInHalves(b.Orders, b.Group, "batch "+string(rec.ID))
		return s, true
	case rec.State == batch.Rejected && endedOutsideBatch(rec.Error):
		return all(order.Queued, b.Group, nil)
	case rec.State == batch.Rejected:
		return all(order.Failed, "", rec.Error)
	}
	return s, false
}

// refusedForGood reports whether the ledger will never accept this batch.
func refusedForGood(rec batch.Record) bool {
	return rec.State == batch.Invalid ||
		(rec.State == batch.Rejected && rec.Error != nil &&
			(rec.Error.Kind == batch.KindRejected || rec.Error.Kind == batch.KindInvalid))
}

// endedOutsideBatch reports whether a batch was given up for a reason that is not in the batch.
func endedOutsideBatch(err *batch.SubmissionError) bool {
	if err == nil {
		return false
	}
	switch err.Kind {
	case batch.KindExhausted, batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured, batch.KindNotYet, batch.KindDoubt, batch.KindFailed:
		return true
	}
	return false
}

// splitInHalves splits orders into two groups, the earlier orders into the first. The halves of a
// group are named after it. Orders without a group get names from seed, which must be unique
// to them. So no two groups of a store share a name, and the groups of one refusal sort like
// their orders.
func splitInHalves(orders []order.Ref, group, seed string) []order.Verdict {
	if group == "" {
		sum := sha256.Sum256([]byte(seed))
		group = hex.EncodeToString(sum[:16]) + "."
	}
	out := make([]order.Verdict, len(orders))
	for i, ref := range orders {
		half := "0"
		if i >= (len(orders)+1)/2 {
			half = "1"
		}
		out[i] = order.Verdict{Ref: ref, State: order.Queued, Group: group + half}
	}
	return out
}

// refusalOf returns the new states of orders that the Builder refused, as after a ledger's
// refusal. alone is a single order to quarantine, split are the halves of several.
func refusalOf(orders []order.Waiting, err error) (alone, split []order.Verdict) {
	if len(orders) == 1 {
		return []order.Verdict{{
			Ref:   refs(orders)[0],
			State: order.Quarantined,
			Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: batch.Excerpt(legible.Error(err), batch.MaxErrorText)},
		}}, nil
	}
	// There is no batch whose id could name the groups. An order has each version only once.
	seed := fmt.Sprintf("order %d of %s", orders[0].Version, orders[0].ID)
	return nil, splitInHalves(refs(orders), orders[0].Group, seed)
}

func refs(orders []order.Waiting) []order.Ref {
	out := make([]order.Ref, len(orders))
	for i, o := range orders {
		out[i] = order.Ref{ID: o.ID, Version: o.Version, TraceParent: o.TraceParent, Created: o.Created}
	}
	return out
}

// roundOf distinguishes batches of the same orders: it is 0 before the first batch, and grows
// whenever the orders were part of another batch or were split.
func roundOf(orders []order.Waiting) (n int64) {
	for _, o := range orders {
		n += o.Version - 1
	}
	return n
}

// roundAgain returns another round for orders if the batch with the round of [roundOf] is known:
// orders of the same ids had it, and retention has removed those since. The round differs by the
// times when the orders were added.
func roundAgain(orders []order.Waiting) int64 {
	n := roundOf(orders)
	for _, o := range orders {
		n += o.Created.UnixMicro()
	}
	return n & math.MaxInt64 // a sum of many orders may overflow
}
