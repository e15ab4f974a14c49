package storetest

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func attemptsTests() []test {
	return []test{
		{name: "each attempt that is reported is kept", run: testAttemptsKept},
		{name: "the first and the newest are kept", run: testAttemptsBound},
		{name: "what is fenced is not", run: testAttemptsFenced},
		{name: "they stay when the batch is final, and when it is requeued", run: testAttemptsStay},
		{name: "texts are stored clean and bounded", run: testAttemptsText},
		{name: "several of one group", run: testAttemptsGroup},
	}
}

func failedReport(attempt int) *batch.Report {
	return &batch.Report{
		Attempt: attempt, Kind: batch.KindBusy, StatusCode: 503, Code: 17, Endpoint: "http://localhost:8008/batches",
		Took: 12345 * time.Microsecond, Text: fmt.Sprint("queue full, said to attempt ", attempt), Instance: "host-1",
	}
}

// recordFailure records with a report that the batch's attempt failed, and claims the batch again.
func (f *fixture) recordFailure(id batch.ID) {
	f.Helper()
	o := f.submitterOutcome(id, store.Failed)
	o.Delay, o.Report = 0, failedReport(f.batches[id].row.Attempt)
	f.recordAll(o)
	f.claimExactly(id)
}

func testAttemptsKept(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	assert.Empty(f, f.attempts("a"))
	f.recordFailure("a")
	f.tick()
	o := f.submitterOutcome("a", store.Accepted)
	o.Report = &batch.Report{Attempt: 2, StatusCode: 202, Took: time.Second}
	f.recordAll(o)
	o = f.monitorOutcome("a", store.Failed)
	o.Report = &batch.Report{Attempt: 2, Kind: batch.KindFailed, Code: -5}
	f.recordAll(o)
	got := f.attempts("a")
	require.Len(f, got, 3)
	assert.False(f, got[0].At.IsZero())
	want := failedReport(1)
	want.At = got[0].At
	assert.Equal(f, *want, got[0])
	assert.Equal(f, batch.ErrorKind(""), got[1].Kind)
	assert.Equal(f, -5, got[2].Code)
	f.passUnits(3)
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a") // without a report
	assert.Len(f, f.attempts("a"), 3)
}

func testAttemptsBound(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	for range batch.MaxReports + 7 {
		f.recordFailure("a")
	}
	got := f.attempts("a")
	require.Len(f, got, batch.MaxReports)
	assert.Equal(f, 1, got[0].Attempt)
	assert.Equal(f, 9, got[1].Attempt)
	assert.Equal(f, batch.MaxReports+7, got[batch.MaxReports-1].Attempt)
}

func testAttemptsFenced(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	o := f.submitterOutcome("a", store.Failed)
	o.Report = failedReport(1)
	f.recordAll(o)
	assert.Equal(f, store.Fenced, f.record(o)[0].Result, "once more, as one does who did not hear the answer")
	assert.Len(f, f.attempts("a"), 1)
	bad := f.submitterOutcome("a", store.Settled)
	bad.Report = failedReport(1)
	assert.Equal(f, store.Bad, f.record(bad)[0].Result)
	assert.Len(f, f.attempts("a"), 1)
	done := f.monitorOutcome("a", store.IsCommitted)
	done.Report = failedReport(1)
	f.record(done, done)
	assert.Len(f, f.attempts("a"), 2, "the second one said nothing new")
}

func testAttemptsStay(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordFailure("a")
	o := f.submitterOutcome("a", store.Refused)
	o.Report = &batch.Report{Attempt: 2, Kind: batch.KindRejected, StatusCode: 400}
	f.recordAll(o)
	assert.Len(f, f.attempts("a"), 2)
	require.NoError(f, f.requeue("a", 0))
	assert.Len(f, f.attempts("a"), 2)
	f.claimExactly("a")
	f.recordFailure("a")
	assert.Len(f, f.attempts("a"), 3)
}

func testAttemptsText(f *fixture) {
	for name, text := range hostileTexts() {
		id := batch.ID(name)
		f.add(newBatch(batch.ServiceID(name), id))
		f.claimExactly(id)
		o := f.submitterOutcome(id, store.Failed)
		o.Report = &batch.Report{
			Attempt: 1, Kind: batch.ErrorKind(text), Endpoint: text, Text: text, Instance: text,
			StatusCode: math.MaxInt32, Code: math.MaxInt32, Took: -time.Second,
		}
		f.recordAll(o)
		got := f.attempts(id)
		require.Len(f, got, 1)
		f.requireClean(name, text, got[0].Text)
		for limit, s := range map[int]string{
			32: string(got[0].Kind), batch.MaxEndpointLen: got[0].Endpoint, batch.MaxInstanceLen: got[0].Instance,
		} {
			assert.True(f, utf8.ValidString(s), name)
			assert.NotContains(f, s, "\x00", name)
			assert.LessOrEqual(f, len(s), limit, name)
		}
		assert.Zero(f, got[0].Took)
	}
	f.add(newBatch("s", "secret"))
	f.claimExactly("secret")
	o := f.submitterOutcome("secret", store.Failed)
	o.Report = &batch.Report{Attempt: 1, Endpoint: "https://me:geheim@node.example:8008/batches?token=geheim"}
	f.recordAll(o)
	assert.Equal(f, "https://node.example:8008/batches", f.attempts("secret")[0].Endpoint)
}

func testAttemptsGroup(f *fixture) {
	f.add(newBatches("s", "b", 4)...)
	is := batchIDs(newBatches("s", "b", 4))
	f.claimExactly(is...)
	var os []store.Outcome
	for i, id := range is {
		o := f.submitterOutcome(id, store.Failed)
		if o.Report = failedReport(1); i == 2 {
			o.Report = nil
		}
		os = append(os, o)
	}
	os[1].Version--
	f.record(os...)
	for i, n := range []int{1, 0, 0, 1} {
		assert.Len(f, f.attempts(is[i]), n, is[i])
	}
}
