package storetest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func placeTests() []test {
	return []test{{name: "what comes back stands where it was added", run: placeBack}}
}

// refused has batches claimed and refused.
func (f *fixture) refused(is ...batch.ID) {
	f.Helper()
	f.take(is...)
	f.each(f.submitted, store.Refused, is...)
}

// placeBack: a strategy may let a batch go before others that it does not conflict with.
// Another strategy that takes over, or works beside it, sees the batch in its place by order
// key, unless it is under way.
func placeBack(f *fixture) {
	front := func(want batch.ID) {
		f.Helper()
		first := func(l batch.Lane) []batch.Run { return []batch.Run{{0}} }
		got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: f.u(1.5),
			Resend: resend(f.u(1000.5), 0), Wants: func(batch.Lane) int { return 0 }}, first)
		assert.Equal(f, []batch.ID{want}, claimedIDs(got))
	}
	f.add(bt("s", "c-a1"), bt("s", "b-a2"), bt("s", "a-b"))
	for _, back := range []struct {
		by      func(batch.ID, store.Finding) store.Outcome
		finding store.Finding
		state   batch.State
	}{
		{f.submitted, store.Unposted, batch.Queued},
		{f.submitted, store.Failed, batch.Delayed},
		{f.monitored, store.NoTrace, batch.Unknown},
	} {
		f.take("a-b")
		if back.finding == store.NoTrace {
			f.each(f.submitted, store.Doubtful, "a-b")
		}
		assert.Equal(f, []batch.ID{"a-b", "c-a1", "b-a2"}, laneIDs(f.view("s", 9)), "under way")
		f.each(back.by, back.finding, "a-b")
		assert.Equal(f, back.state, f.get("a-b").State)
		assert.Equal(f, []batch.ID{"c-a1", "b-a2", "a-b"}, laneIDs(f.view("s", 9)), "%s", back.state)
		assert.Equal(f, []batch.ID{"c-a1", "b-a2"}, laneIDs(f.view("s", 2)), "%s: there may be more before it", back.state)
		assert.Equal(f, []batch.ID{"c-a1"}, laneIDs(f.view("s", 1)), "%s", back.state)
		f.look("a-b", 9)
		f.look("a-b", 2)
		f.pass(3)
	}
	front("c-a1")
	f.each(f.submitted, store.Refused, "c-a1")
	front("b-a2")
	f.each(f.submitted, store.Refused, "b-a2")
	front("a-b")
}
