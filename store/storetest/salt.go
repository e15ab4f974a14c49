package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// testClaimSalt: a caller that does not know whether its claim was made puts the claim back. This
// undoes a claim that was made, and no other claim of the same batch, since each claim has its own
// version.
func testClaimSalt(f *fixture) {
	b := newBatch("s", "a")
	b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
	f.add(b, newBatch("s", "b"), newBatch("t", "c"))
	claim := func(salt uint32) store.Claim {
		got := f.claim(store.ClaimQuery{
			Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 2, TTL: f.units(1.5), Resend: resendRule(f.units(1000.5), 0), Salt: salt,
		}, chooseEveryReady)
		require.Equal(f, []batch.ID{"a"}, claimedIDs(got))
		return got.Runs[0].Batches[0]
	}
	back := func(version int64) store.Outcome {
		o := f.submitterOutcome("a", store.Unposted)
		o.Version, o.Was, o.Back, o.Refund = version, nil, batch.Queued, true
		return o
	}
	const most = 1<<32 - 1
	c := claim(most)
	assert.Equal(f, int64(2+most), c.Version)
	for _, other := range []int64{1, 2, 3, c.Version - 1, c.Version + 1} {
		assert.Equal(f, store.Fenced, f.record(back(other))[0].Result, "version %d was never claimed", other)
	}
	assert.Equal(f, batch.Submitting, f.get("a").State)
	f.recordAll(back(c.Version))
	r := f.get("a")
	assert.Equal(f, batch.Queued, r.State)
	assert.Zero(f, r.Spent)
	assert.True(f, r.DoubtSince.IsZero())
	again := claim(7) // a claim of a batch that was claimed before
	assert.Equal(f, c.Version+1+1+7, again.Version)
	assert.Equal(f, store.Fenced, f.record(back(c.Version))[0].Result, "which comes once more")
	known := back(again.Version)
	known.Was = again.Was
	f.passUnits(2) // the batch's claim has ended, and the row has not changed
	f.recordAll(known)
	assert.Equal(f, batch.Queued, f.get("a").State)
}
