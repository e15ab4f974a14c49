package storetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// standing is a state of a batch, with all that matters to the rules, and the way there from
// Queued.
type standing struct {
	name  string
	reach func(f *fixture, is []batch.ID)
	needs store.Abilities // the abilities without which no batch gets there
}

// standings lists all states that differ to the rules. The last step is not a passing of time
// alone, except where the standing depends on time.
func standings() []standing {
	var (
		submitting = func(f *fixture, is []batch.ID) { f.take(is...) }
		doubt      = func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.each(f.submitted, store.Doubtful, is...)
		}
		pending = func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.each(f.submitted, store.Accepted, is...)
		}
		unknown = func(f *fixture, is []batch.ID) {
			doubt(f, is)
			f.each(f.monitored, store.NoTrace, is...)
		}
		again = func(f *fixture, is []batch.ID) {
			unknown(f, is)
			submitting(f, is)
		}
		unsettled = func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.each(f.monitored, store.IsInvalid, is...)
		}
		rejected = func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.each(f.submitted, store.Refused, is...)
		}
		requeued = func(f *fixture, is []batch.ID) {
			rejected(f, is)
			for _, id := range is {
				require.NoError(f, f.requeue(id, 0))
			}
		}
	)
	return []standing{
		{name: "queued", reach: func(*fixture, []batch.ID) {}},
		{name: "submitting", reach: submitting},
		{name: "submitting and expired", reach: func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.pass(2)
		}},
		{name: "in doubt", reach: doubt},
		{name: "needing a decision", reach: func(f *fixture, is []batch.ID) {
			doubt(f, is)
			f.each(f.monitored, store.Undecidable, is...)
		}},
		{name: "pending", reach: pending},
		{name: "valid", reach: func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.each(f.monitored, store.IsValid, is...)
		}},
		{name: "delayed", reach: func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.each(f.submitted, store.Failed, is...)
		}},
		{name: "unknown", reach: unknown},
		{name: "submitting again, an earlier attempt in doubt", reach: again},
		{name: "pending, an earlier attempt in doubt", reach: func(f *fixture, is []batch.ID) {
			again(f, is)
			f.each(f.submitted, store.Accepted, is...)
		}},
		{name: "delayed, an earlier attempt in doubt", reach: func(f *fixture, is []batch.ID) {
			again(f, is)
			f.each(f.submitted, store.Failed, is...)
		}},
		{name: "refused, an earlier attempt in doubt", reach: func(f *fixture, is []batch.ID) {
			again(f, is)
			f.each(f.submitted, store.Refused, is...)
		}},
		{name: "invalid, not settled", reach: unsettled},
		{name: "invalid, about to settle", reach: func(f *fixture, is []batch.ID) {
			unsettled(f, is)
			f.pass(6)
		}},
		{name: "invalid", reach: func(f *fixture, is []batch.ID) {
			unsettled(f, is)
			f.pass(6)
			f.each(f.monitored, store.Settled, is...)
		}},
		{name: "committed", reach: func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.each(f.monitored, store.IsCommitted, is...)
		}},
		{name: "rejected", reach: rejected},
		{name: "cancelled", reach: func(f *fixture, is []batch.ID) {
			for _, id := range is {
				require.NoError(f, f.cancel(id, "not wanted"))
			}
		}, needs: store.CanOperate},
		{name: "requeued", reach: requeued, needs: store.CanOperate},
		{name: "quarantined", reach: func(f *fixture, is []batch.ID) {
			submitting(f, is)
			for _, id := range is {
				f.ends(id, batch.PolicyQuarantine)
			}
		}, needs: store.CanControl},
		{name: "requeued and submitting", reach: func(f *fixture, is []batch.ID) {
			requeued(f, is)
			submitting(f, is)
		}, needs: store.CanOperate},
	}
}

// ends has a claimed batch refused, under the policy of the outcome.
func (f *fixture) ends(id batch.ID, policy batch.Policy) store.Applied {
	f.Helper()
	o := f.submitted(id, store.Refused)
	o.Policy, o.Error = policy, &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
	return f.written(o)[0]
}

// standings lists the states that the store's batches can reach.
func (f *fixture) standings() []standing {
	return slices.DeleteFunc(standings(), func(s standing) bool { return !f.has(s.needs) })
}

// oneOfEach has one batch in every standing that the store's batches can reach, each in a lane
// of its own, named after the standing.
func (f *fixture) oneOfEach() map[string]batch.ID {
	f.Helper()
	named := map[string]batch.ID{}
	for _, s := range f.standings() {
		id := batch.ID("id of " + s.name)
		f.add(bt(batch.ServiceID(s.name), id))
		s.reach(f, []batch.ID{id})
		named[s.name] = id
	}
	return named
}
