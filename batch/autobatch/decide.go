package autobatch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// due says how long what waits at an idle party waits on: 0 or less is no longer.
// Count, bytes and age count, whichever comes first.
func (o Options) due(l store.PartyLoad) time.Duration {
	if l.Urgent || l.Split || l.Orders >= o.MaxSize || (o.MaxBytes > 0 && l.Bytes >= o.MaxBytes) {
		return 0
	}
	return o.FlushAge - l.Oldest
}

// settle says what becomes of the orders of a batch. It is false where nothing can be
// said yet: the batch is not final, or an attempt of it is in doubt, so that it may
// still be executed.
//
// A refusal halves; it is never concluded which order is at fault, not even where
// the ledger names it or the other half was fine (docs/design.md#auto-batching).
func settle(b store.OrderBatch) (store.Settlement, bool) {
	s := store.Settlement{Batch: b.Record.Key, Version: b.Record.Version}
	all := func(state batch.OrderState, group string, err *batch.SubmissionError) (store.Settlement, bool) {
		s.Orders = make([]store.OrderVerdict, len(b.Orders))
		for i, ref := range b.Orders {
			s.Orders[i] = store.OrderVerdict{OrderRef: ref, State: state, Group: group, Error: err}
		}
		return s, true
	}
	switch rec := b.Record; {
	case !rec.Final():
		return s, false
	case rec.State == batch.Committed:
		return all(batch.OrderConfirmed, "", nil)
	case !rec.DoubtSince.IsZero():
		return s, false
	case refused(rec):
		if len(b.Orders) == 1 {
			return all(batch.OrderQuarantined, "", rec.Error)
		}
		s.Orders = halves(b.Orders, b.Group, "batch "+string(rec.ID))
		return s, true
	case rec.State == batch.Rejected && transient(rec.Error):
		return all(batch.OrderQueued, b.Group, nil)
	case rec.State == batch.Rejected:
		return all(batch.OrderFailed, "", rec.Error)
	}
	return s, false
}

// refused reports whether the ledger will not have this batch, whenever it comes.
func refused(rec batch.Record) bool {
	return rec.State == batch.Invalid ||
		(rec.State == batch.Rejected && rec.Error != nil &&
			(rec.Error.Kind == batch.KindRejected || rec.Error.Kind == batch.KindInvalid))
}

// transient reports whether a batch was given up for a reason that is not its own.
func transient(err *batch.SubmissionError) bool {
	if err == nil {
		return false
	}
	switch err.Kind {
	case batch.KindExhausted, batch.KindBusy, batch.KindUnavailable, batch.KindMisconfigured, batch.KindDoubt, batch.KindFailed:
		return true
	}
	return false
}

// halves puts orders into two groups, the earlier ones into the first. The groups of
// what was not one yet are named after seed, which must be theirs alone; a group's
// halves after the group. So no two groups of a store have one name, and those of
// one refusal sort as their orders do.
func halves(orders []store.OrderRef, group, seed string) []store.OrderVerdict {
	if group == "" {
		sum := sha256.Sum256([]byte(seed))
		group = hex.EncodeToString(sum[:16]) + "."
	}
	out := make([]store.OrderVerdict, len(orders))
	for i, ref := range orders {
		half := "0"
		if i >= (len(orders)+1)/2 {
			half = "1"
		}
		out[i] = store.OrderVerdict{OrderRef: ref, State: batch.OrderQueued, Group: group + half}
	}
	return out
}

// refuse says what becomes of orders of which a Builder says that no batch can be
// made: the same as after a ledger's refusal.
func refuse(orders []store.QueuedOrder, err error) (alone, split []store.OrderVerdict) {
	if len(orders) == 1 {
		return []store.OrderVerdict{{
			OrderRef: store.OrderRef{ID: orders[0].ID, Version: orders[0].Version},
			State:    batch.OrderQuarantined,
			Error:    &batch.SubmissionError{Kind: batch.KindRejected, Message: batch.Excerpt(err.Error(), batch.MaxErrorText)},
		}}, nil
	}
	// There is no batch whose id could name the groups. An order is at one version once.
	seed := fmt.Sprintf("order %d of %s", orders[0].Version, orders[0].ID)
	return nil, halves(refs(orders), orders[0].Group, seed)
}

func refs(orders []store.QueuedOrder) []store.OrderRef {
	out := make([]store.OrderRef, len(orders))
	for i, o := range orders {
		out[i] = store.OrderRef{ID: o.ID, Version: o.Version}
	}
	return out
}

// round tells batches of the same orders apart: 0 before the first, and higher
// whenever they were part of another one since, or were split.
func round(orders []store.QueuedOrder) (n int64) {
	for _, o := range orders {
		n += o.Version - 1
	}
	return n
}
