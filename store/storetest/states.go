package storetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// standing is a state of a batch with everything that matters for the rules, and the steps that
// lead to it from Queued.
type standing struct {
	name        string
	makeBatches func(f *fixture, is []batch.ID)
	needs       store.Abilities // the abilities without which no batch gets into the standing
}

// standings returns all standings that differ for the rules. The last step of each is more than a
// passing of time, unless the standing depends on time.
func standings() []standing {
	var (
		submitting = func(f *fixture, is []batch.ID) { f.claimExactly(is...) }
		doubt      = func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.recordEach(f.submitterOutcome, store.Doubtful, is...)
		}
		pending = func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.recordEach(f.submitterOutcome, store.Accepted, is...)
		}
		unknown = func(f *fixture, is []batch.ID) {
			doubt(f, is)
			f.recordEach(f.monitorOutcome, store.NoTrace, is...)
		}
		again = func(f *fixture, is []batch.ID) {
			unknown(f, is)
			submitting(f, is)
		}
		unsettled = func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.recordEach(f.monitorOutcome, store.IsInvalid, is...)
		}
		rejected = func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.recordEach(f.submitterOutcome, store.Refused, is...)
		}
		requeued = func(f *fixture, is []batch.ID) {
			rejected(f, is)
			for _, id := range is {
				require.NoError(f, f.requeue(id, 0))
			}
		}
	)
	return []standing{
		{name: "queued", makeBatches: func(*fixture, []batch.ID) {}},
		{name: "submitting", makeBatches: submitting},
		{name: "submitting and expired", makeBatches: func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.passUnits(2)
		}},
		{name: "in doubt", makeBatches: doubt},
		{name: "needing a decision", makeBatches: func(f *fixture, is []batch.ID) {
			doubt(f, is)
			f.recordEach(f.monitorOutcome, store.Undecidable, is...)
		}},
		{name: "pending", makeBatches: pending},
		{name: "valid", makeBatches: func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.recordEach(f.monitorOutcome, store.IsValid, is...)
		}},
		{name: "delayed", makeBatches: func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.recordEach(f.submitterOutcome, store.Failed, is...)
		}},
		{name: "unknown", makeBatches: unknown},
		{name: "submitting again, an earlier attempt in doubt", makeBatches: again},
		{name: "pending, an earlier attempt in doubt", makeBatches: func(f *fixture, is []batch.ID) {
			again(f, is)
			f.recordEach(f.submitterOutcome, store.Accepted, is...)
		}},
		{name: "delayed, an earlier attempt in doubt", makeBatches: func(f *fixture, is []batch.ID) {
			again(f, is)
			f.recordEach(f.submitterOutcome, store.Failed, is...)
		}},
		{name: "refused, an earlier attempt in doubt", makeBatches: func(f *fixture, is []batch.ID) {
			again(f, is)
			f.recordEach(f.submitterOutcome, store.Refused, is...)
		}},
		{name: "invalid, not settled", makeBatches: unsettled},
		{name: "invalid, about to settle", makeBatches: func(f *fixture, is []batch.ID) {
			unsettled(f, is)
			f.passUnits(6)
		}},
		{name: "invalid", makeBatches: func(f *fixture, is []batch.ID) {
			unsettled(f, is)
			f.passUnits(6)
			f.recordEach(f.monitorOutcome, store.Settled, is...)
		}},
		{name: "committed", makeBatches: func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.recordEach(f.monitorOutcome, store.IsCommitted, is...)
		}},
		{name: "rejected", makeBatches: rejected},
		{name: "cancelled", makeBatches: func(f *fixture, is []batch.ID) {
			for _, id := range is {
				require.NoError(f, f.cancel(id, "not wanted"))
			}
		}, needs: store.CanOperate},
		{name: "requeued", makeBatches: requeued, needs: store.CanOperate},
		{name: "quarantined", makeBatches: func(f *fixture, is []batch.ID) {
			submitting(f, is)
			for _, id := range is {
				f.refuseClaimed(id, batch.PolicyQuarantine)
			}
		}, needs: store.CanControl},
		{name: "requeued and submitting", makeBatches: func(f *fixture, is []batch.ID) {
			requeued(f, is)
			submitting(f, is)
		}, needs: store.CanOperate},
	}
}

// refuseClaimed records that a claimed batch was refused. policy is the policy of the outcome.
func (f *fixture) refuseClaimed(id batch.ID, policy batch.Policy) store.Applied {
	f.Helper()
	o := f.submitterOutcome(id, store.Refused)
	o.Policy, o.Error = policy, &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
	return f.recordAll(o)[0]
}

// standings returns the standings that batches of the store can reach.
func (f *fixture) standings() []standing {
	return slices.DeleteFunc(standings(), func(s standing) bool { return !f.hasAbilities(s.needs) })
}

// makeOneOfEach makes one batch in every standing that batches of the store can reach. Each is in
// a lane of its own, which is named after the standing.
func (f *fixture) makeOneOfEach() map[string]batch.ID {
	f.Helper()
	named := map[string]batch.ID{}
	for _, s := range f.standings() {
		id := batch.ID("id of " + s.name)
		f.add(newBatch(batch.ServiceID(s.name), id))
		s.makeBatches(f, []batch.ID{id})
		named[s.name] = id
	}
	return named
}
