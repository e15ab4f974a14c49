package otelbatch

import (
	"context"
	"errors"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// observeCall measures a call to the store or to the ledger.
func (m *Metrics) observeCall(ctx context.Context, c batch.Call) {
	took := c.Took.Seconds()
	if c.Part == "ledger" {
		failed := ledgerError(c.Err)
		switch c.Op {
		case "submit", "submit_list":
			m.operation.record(noContext, took, labelValues{c.Op, failed})
			m.requestTime.record(noContext, float64(c.Items), labelValues{})
		default:
			m.queryTime.record(noContext, took, labelValues{c.Op, failed})
		}
		return
	}
	failed := storeError(c.Err)
	m.storeTime.record(ctx, took, labelValues{c.Op, failed})
	switch c.Op {
	case "add", "add_tx", "claim", "record":
		m.operation.record(ctx, took, labelValues{c.Op, failed})
	}
	if c.Err != nil {
		return
	}
	switch c.Op {
	case "add", "add_tx":
		m.added.add(c.Items, labelValues{c.Op})
	case "prune":
		m.pruned.add(c.Items, labelValues{})
	case "claim":
		if c.Items == 0 {
			m.emptyClaims.add(1, labelValues{})
		}
	}
	if c.Items > 0 && slices.Contains(groupOps.values, c.Op) {
		m.groupItems.record(ctx, float64(c.Items), labelValues{c.Op})
	}
}

// canceledError is the error of a call that its caller cancelled, mostly because the Runner stops.
const canceledError = "canceled"

// ledgerKinds are the values of ledgerError except success and canceled.
var ledgerKinds = []string{
	string(batch.KindRejected), string(batch.KindBusy), string(batch.KindNotYet), string(batch.KindUnavailable), string(batch.KindMisconfigured), string(batch.KindDoubt),
}

// ledgerError returns the kind of the error of a call to the ledger, as [dlt.Kind] does. "doubt"
// is any error that has no other kind.
func ledgerError(err error) string {
	if errors.Is(err, context.Canceled) {
		return canceledError
	}
	return string(dlt.Kind(err))
}

// storeSentinels classify the errors of calls to the store. The first that matches counts.
var storeSentinels = []struct {
	err  error
	name string
}{
	{context.Canceled, canceledError},
	{context.DeadlineExceeded, "timeout"},
	{batch.ErrNotFound, "not_found"},
	{batch.ErrInvalidInput, "invalid_input"},
	{batch.ErrConflict, "conflict"},
	{batch.ErrEnded, "ended"},
	{batch.ErrMovedOn, "moved_on"},
	{batch.ErrNotAllowed, "not_allowed"},
	{batch.ErrInDoubt, "in_doubt"},
	{store.ErrUnsupported, "unsupported"},
}

// storeKinds returns the values of storeError except success and other.
func storeKinds() (all []string) {
	for _, s := range storeSentinels {
		all = append(all, s.name)
	}
	return all
}

func storeError(err error) string {
	if err == nil {
		return ""
	}
	for _, s := range storeSentinels {
		if errors.Is(err, s.err) {
			return s.name
		}
	}
	return otherValue
}
