package storetest

import (
	"fmt"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func recordTests() []test {
	tests := []test{
		{name: "a late submitter is fenced", run: testRecordLateSubmitter},
		{name: "a monitor that read before is fenced", run: testRecordLateMonitor},
		{name: "an outcome applies after its claim expired while the version stands", run: testRecordExpired},
		{name: "a fenced commit is applied", run: testRecordFencedCommit},
		{name: "a commit is held while a live claim may post", run: testRecordHeld},
		{name: "a bad outcome fails alone", run: testRecordAlone},
		{name: "two outcomes about one batch", run: testRecordTwo},
		{name: "an acceptance and the commit at once", run: testRecordAtOnce},
		{name: "a large group", run: testRecordLarge},
		{name: "receipts of a verdict that was taken back", run: testRecordReceipts},
		{name: "the outcomes are not kept", run: testRecordCopies},
		{name: "who has shown an attempt is stored clean and bounded", run: testRecordShown},
	}
	for _, s := range standings() {
		tests = append(tests, test{name: "every finding, " + s.name, run: func(f *fixture) { testRecordEveryFinding(f, s) }, needs: s.needs})
	}
	return tests
}

// testRecordEveryFinding records every finding, by actors that may report it and by actors that
// may not. It compares the results with the pure rule, and then records all of it a second time.
func testRecordEveryFinding(f *fixture, s standing) {
	variants := []func(*store.Outcome){
		func(*store.Outcome) {},
		func(o *store.Outcome) { o.Version-- },
		func(o *store.Outcome) { o.Version++; o.Row = 0 },
		func(o *store.Outcome) {
			o.Last, o.Spend, o.Settle = true, true, 0
			o.Attempt = f.batches[o.Key.ID].row.Attempt
			o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "why"}
			o.Receipts = []batch.Receipt{{TransactionID: "t1", Message: "no", Data: []byte{0, 255}}, {TransactionID: "t2", Valid: true}}
		},
		func(o *store.Outcome) { o.Back, o.Attempt, o.Endpoint = batch.Pending, 1, "http://node:8008" },
		func(o *store.Outcome) { o.RolledBack = true },
		func(o *store.Outcome) { o.Prepared = []byte("other bytes") },
	}
	var is []batch.ID
	for finding := store.Finding(0); finding <= store.Undecidable+1; finding++ {
		for _, by := range []string{"s", "m"} {
			for v := range variants {
				id := batch.ID(fmt.Sprintf("%s/%s/%d", finding, by, v))
				is = append(is, id)
			}
		}
	}
	bs := make([]batch.Batch, len(is))
	for i, id := range is {
		bs[i] = newBatch("s", id)
	}
	f.add(bs...)
	s.makeBatches(f, is)

	var outcomes []store.Outcome
	i := 0
	for finding := store.Finding(0); finding <= store.Undecidable+1; finding++ {
		for _, by := range []func(batch.ID, store.Finding) store.Outcome{f.submitterOutcome, f.monitorOutcome} {
			for _, variant := range variants {
				o := by(is[i], finding)
				variant(&o)
				outcomes = append(outcomes, o)
				i++
			}
		}
	}
	f.record(outcomes...) // compared with the model
	versions := make([]int64, len(is))
	for i, id := range is {
		versions[i] = f.get(id).Version
	}
	f.record(outcomes...)
	for i, id := range is {
		require.Equal(f, versions[i], f.get(id).Version, "recording %s again", id)
	}
	f.viewLane("s", 2000)
	f.pending(2000, f.units(0.5))
	if open := f.modelBatches(func(s *modelBatch) bool { return !s.row.Final() }); len(open) > 0 && f.hasAbilities(store.CanInspect) {
		f.look(open[0].batch.ID, 2000) // reads the whole lane
	}
}

func testRecordShown(f *fixture) {
	for name, text := range hostileTexts() {
		if text == "" {
			continue // no actor
		}
		id := batch.ID(name)
		f.add(newBatch(batch.ServiceID(name), id))
		f.claimExactly(id)
		f.recordEach(f.submitterOutcome, store.Accepted, id)
		o := f.monitorOutcome(id, store.IsPending)
		o.Endpoint = text
		applied, err := f.store.Record(f.ctx, []store.Outcome{o})
		require.NoError(f, err, name)
		row := applied[0].Row
		require.Equal(f, store.Written, applied[0].Result, "%s: %v", name, applied[0].Err)
		assert.Equal(f, row.Attempt, row.SeenAttempt)
		assert.True(f, utf8.ValidString(row.SeenEndpoint), name)
		assert.LessOrEqual(f, len(row.SeenEndpoint), store.MaxEndpointLen, name)
		rows, err := f.store.Pending(f.ctx, store.PendingQuery{Services: []batch.ServiceID{batch.ServiceID(name)}, Limit: 1})
		require.NoError(f, err)
		require.Len(f, rows, 1)
		assert.Equal(f, row.SeenEndpoint, rows[0].Seen, name)
	}
}

func testRecordLateSubmitter(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	late := f.submitterOutcome("a", store.Accepted)
	f.passUnits(2)
	f.recordEach(f.monitorOutcome, store.NotCommitted, "a")
	assert.Equal(f, store.Fenced, f.record(late)[0].Result)
	f.claimExactly("a")
	for _, finding := range []store.Finding{store.Accepted, store.Failed, store.Refused, store.Doubtful, store.Unposted} {
		late.Finding = finding
		assert.Equal(f, store.Fenced, f.record(late)[0].Result, finding)
	}
	r := f.get("a")
	assert.Equal(f, batch.Submitting, r.State)
	assert.Equal(f, 2, r.Attempt)
	assert.Equal(f, int64(4), r.Version)
}

func testRecordLateMonitor(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.passUnits(1)
	read := f.pending(1, f.units(0.5))[0]
	f.recordEach(f.monitorOutcome, store.NotCommitted, "a") // another monitor was faster
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	for _, finding := range []store.Finding{store.IsInvalid, store.NotCommitted, store.NoTrace, store.IsValid, store.Refused} {
		o := f.monitorOutcome("a", finding)
		o.Version = read.Version
		assert.Equal(f, store.Fenced, f.record(o)[0].Result, finding)
	}
	assert.Equal(f, batch.Pending, f.get("a").State)
}

func testRecordExpired(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.passUnits(5)
	f.pending(1, f.units(0.5)) // a lease raises no version
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	assert.Equal(f, batch.Pending, f.get("a").State)
}

func testRecordFencedCommit(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("a", "b", "c")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b", "c")
	read := []store.Outcome{f.monitorOutcome("a", store.IsCommitted), f.monitorOutcome("b", store.IsCommitted), f.monitorOutcome("c", store.IsCommitted)}
	f.recordEach(f.monitorOutcome, store.NotCommitted, "a")
	f.recordEach(f.monitorOutcome, store.IsValid, "b")
	o := f.monitorOutcome("c", store.IsInvalid)
	o.Settle = 0
	f.recordAll(o)
	for i, a := range f.record(read...) {
		assert.Equal(f, store.Written, a.Result)
		assert.Equal(f, i == 2, a.Breach, "only c was final")
	}
	for _, id := range []batch.ID{"a", "b", "c"} {
		assert.Equal(f, batch.Committed, f.get(id).State)
	}
}

func testRecordHeld(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	commit := f.monitorOutcome("a", store.IsCommitted)
	f.recordEach(f.monitorOutcome, store.NotCommitted, "a")
	f.claimExactly("a")
	before := f.get("a")
	for range 2 {
		assert.Equal(f, store.Held, f.record(commit)[0].Result)
		assert.Equal(f, before, f.get("a"))
	}
	f.passUnits(2)
	assert.Equal(f, store.Written, f.record(commit)[0].Result)
	assert.Equal(f, batch.Committed, f.get("a").State)
	late := f.submitterOutcome("a", store.Accepted)
	late.Version = before.Version
	assert.Equal(f, store.Fenced, f.record(late)[0].Result)
}

func testRecordAlone(f *fixture) {
	f.add(newBatches("s", "b", 4)...)
	f.claimExactly("b00001", "b00002", "b00003")
	stale := f.submitterOutcome("b00002", store.Accepted)
	stale.Version--
	bad := f.submitterOutcome("b00003", store.IsInvalid) // a submitter may not report this
	got := f.record(
		store.Outcome{Ref: store.Ref{Key: batch.Key{Service: "s", ID: "none"}}, Version: 2, By: batch.ByMonitor, Finding: store.IsCommitted},
		stale, f.submitterOutcome("b00001", store.Accepted), bad,
		store.Outcome{Ref: store.Ref{Key: batch.Key{Service: "t", ID: "b00001"}}, Version: 2, By: batch.BySubmitter, Finding: store.Accepted},
		f.submitterOutcome("b00002", store.Failed),
	)
	results := make([]store.Result, len(got))
	for i, a := range got {
		results[i] = a.Result
	}
	assert.Equal(f, []store.Result{store.Gone, store.Fenced, store.Written, store.Bad, store.Gone, store.Written}, results)
	assert.ErrorIs(f, got[3].Err, batch.ErrNotAllowed)
	for id, s := range map[batch.ID]batch.State{
		"b00001": batch.Pending, "b00002": batch.Delayed, "b00003": batch.Submitting, "b00004": batch.Queued,
	} {
		assert.Equal(f, s, f.get(id).State)
	}
	got = must(f.store.Record(f.ctx, nil))(f)
	assert.Empty(f, got)
}

func testRecordTwo(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a", "b")
	got := f.record(f.submitterOutcome("a", store.Accepted), f.submitterOutcome("b", store.Doubtful), f.submitterOutcome("a", store.Failed), f.monitorOutcome("b", store.IsCommitted))
	assert.Equal(f, store.Written, got[0].Result)
	assert.Equal(f, store.Fenced, got[2].Result, "the first has raised the version")
	assert.Equal(f, store.Written, got[3].Result, "the doubt has ended the claim")
	assert.Equal(f, batch.Pending, f.get("a").State)
	assert.Equal(f, batch.Committed, f.get("b").State)
}

// testRecordAtOnce: the acceptance and the commit may be known together; then the submitter
// records them as one outcome.
func testRecordAtOnce(f *fixture) {
	bs := newBatches("s", "b", 6)
	f.add(bs...)
	f.claimExactly(batchIDs(bs)...)
	f.recordEach(f.submitterOutcome, store.IsCommitted, batchIDs(bs)...)
	for _, b := range bs {
		r := f.get(b.ID)
		assert.Equal(f, batch.Committed, r.State)
		assert.False(f, r.LastPost.After(r.FinalAt), "the claim's end is nothing that has happened")
	}
	f.recordEach(f.monitorOutcome, store.IsCommitted, "b00001") // this changes nothing
}

func testRecordLarge(f *fixture) {
	bs := newBatches("s", "b", 1200)
	f.add(bs...)
	f.claimExactly(batchIDs(bs)...)
	f.recordEach(f.submitterOutcome, store.Accepted, batchIDs(bs)...)
	f.recordEach(f.monitorOutcome, store.IsCommitted, batchIDs(bs)...)
	assert.Empty(f, f.viewLane("s", 2000).Batches)
	assert.Empty(f, f.lanes(store.LanesQuery{Start: true, Limit: 9}))
	if f.hasAbilities(store.CanList) {
		assert.Empty(f, f.list(store.ListQuery{Open: true}))
	}
}

func testRecordCopies(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	o := f.monitorOutcome("a", store.IsInvalid)
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "bad nonce"}
	o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "bad nonce", Data: []byte("data")}}
	got := f.recordAll(o)[0]
	f.batches["a"].row.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "bad nonce"}
	f.batches["a"].row.Receipts = []batch.Receipt{{TransactionID: "t", Message: "bad nonce", Data: []byte("data")}}
	o.Error.Message, o.Receipts[0].Message, o.Receipts[0].Data[0] = "X", "X", 'X'
	got.Row.Error.Message, got.Row.Receipts[0].Message, got.Row.Receipts[0].Data[0] = "Y", "Y", 'Y'
	r := f.get("a")
	r.Error.Message, r.Receipts[0].Message, r.Receipts[0].Data[0] = "Z", "Z", 'Z'
	f.get("a")
}

// testRecordReceipts: a verdict's receipts are replaced with the verdict, whether the next verdict
// has fewer or more.
func testRecordReceipts(f *fixture) {
	receipts := func(n int, valid bool) (rs []batch.Receipt) {
		for i := range n {
			rs = append(rs, batch.Receipt{TransactionID: fmt.Sprintf("t%d of %d", i, n), Valid: valid})
		}
		return rs
	}
	for i, n := range []int{0, 1, 2, 3} {
		id := batch.ID(fmt.Sprint("id", i))
		f.add(newBatch("s", id))
		f.claimExactly(id)
		f.recordEach(f.submitterOutcome, store.Accepted, id)
		invalid := f.monitorOutcome(id, store.IsInvalid)
		invalid.Settle, invalid.Receipts = f.units(100.5), receipts(2, false)
		f.recordAll(invalid)
		require.Len(f, f.get(id).Receipts, 2)
		f.recordEach(f.monitorOutcome, store.IsPending, id)
		require.Empty(f, f.get(id).Receipts)
		again := f.monitorOutcome(id, store.IsInvalid)
		again.Settle, again.Receipts = f.units(100.5), receipts(1, false)
		f.recordAll(again)
		require.Len(f, f.get(id).Receipts, 1)
		committed := f.monitorOutcome(id, store.IsCommitted)
		committed.Receipts = receipts(n, true)
		f.recordAll(committed)
		require.Len(f, f.get(id).Receipts, n)
	}
}
