package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// standing is a state of a batch, with all that matters to the rules, and the way there from
// Queued.
type standing struct {
	name  string
	reach func(f *fixture, is []batch.ID)
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
		{"queued", func(*fixture, []batch.ID) {}},
		{"submitting", submitting},
		{"submitting and expired", func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.pass(2)
		}},
		{"in doubt", doubt},
		{"needing a decision", func(f *fixture, is []batch.ID) {
			doubt(f, is)
			f.each(f.monitored, store.Undecidable, is...)
		}},
		{"pending", pending},
		{"valid", func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.each(f.monitored, store.IsValid, is...)
		}},
		{"delayed", func(f *fixture, is []batch.ID) {
			submitting(f, is)
			f.each(f.submitted, store.Failed, is...)
		}},
		{"unknown", unknown},
		{"submitting again, an earlier attempt in doubt", again},
		{"pending, an earlier attempt in doubt", func(f *fixture, is []batch.ID) {
			again(f, is)
			f.each(f.submitted, store.Accepted, is...)
		}},
		{"delayed, an earlier attempt in doubt", func(f *fixture, is []batch.ID) {
			again(f, is)
			f.each(f.submitted, store.Failed, is...)
		}},
		{"refused, an earlier attempt in doubt", func(f *fixture, is []batch.ID) {
			again(f, is)
			f.each(f.submitted, store.Refused, is...)
		}},
		{"invalid, not settled", unsettled},
		{"invalid, about to settle", func(f *fixture, is []batch.ID) {
			unsettled(f, is)
			f.pass(6)
		}},
		{"invalid", func(f *fixture, is []batch.ID) {
			unsettled(f, is)
			f.pass(6)
			f.each(f.monitored, store.Settled, is...)
		}},
		{"committed", func(f *fixture, is []batch.ID) {
			pending(f, is)
			f.each(f.monitored, store.IsCommitted, is...)
		}},
		{"rejected", rejected},
		{"cancelled", func(f *fixture, is []batch.ID) {
			for _, id := range is {
				require.NoError(f, f.cancel(id, "not wanted"))
			}
		}},
		{"requeued", requeued},
		{"requeued to the end", func(f *fixture, is []batch.ID) {
			rejected(f, is)
			for _, id := range is {
				require.NoError(f, f.requeueTo(id, store.Requeue{AtEnd: true}))
			}
		}},
		{"quarantined", func(f *fixture, is []batch.ID) {
			submitting(f, is)
			for _, id := range is {
				f.ends(id, batch.PolicyQuarantine)
			}
		}},
		{"requeued and submitting", func(f *fixture, is []batch.ID) {
			requeued(f, is)
			submitting(f, is)
		}},
	}
}

// ends has a claimed batch refused, under the policy of the outcome.
func (f *fixture) ends(id batch.ID, policy batch.Policy) store.Applied {
	f.Helper()
	o := f.submitted(id, store.Refused)
	o.Policy, o.Error = policy, &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
	return f.written(o)[0]
}

// oneOfEach has one batch in every standing, each in a lane of its own, named after the
// standing.
func (f *fixture) oneOfEach() map[string]batch.ID {
	f.Helper()
	named := map[string]batch.ID{}
	for _, s := range standings() {
		id := batch.ID("id of " + s.name)
		f.add(bt(batch.ServiceID(s.name), id))
		s.reach(f, []batch.ID{id})
		named[s.name] = id
	}
	return named
}
