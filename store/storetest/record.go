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
		{name: "a late submitter is fenced", run: recordLateSubmitter},
		{name: "a monitor that read before is fenced", run: recordLateMonitor},
		{name: "an outcome applies after its claim expired while the version stands", run: recordExpired},
		{name: "a fenced commit is applied", run: recordFencedCommit},
		{name: "a commit is held while a live claim may post", run: recordHeld},
		{name: "a bad outcome fails alone", run: recordAlone},
		{name: "two outcomes about one batch", run: recordTwo},
		{name: "an acceptance and the commit at once", run: recordAtOnce},
		{name: "a large group", run: recordLarge},
		{name: "receipts of a verdict that was taken back", run: recordReceipts},
		{name: "the outcomes are not kept", run: recordCopies},
		{name: "who has shown an attempt is stored clean and bounded", run: recordShown},
	}
	for _, s := range standings() {
		tests = append(tests, test{name: "every finding, " + s.name, run: func(f *fixture) { recordEvery(f, s) }, needs: s.needs})
	}
	return tests
}

// recordEvery records every finding, by actors that may report it and by actors that may not,
// and compares the result with the pure rule; then all of it once more.
func recordEvery(f *fixture, s standing) {
	variants := []func(*store.Outcome){
		func(*store.Outcome) {},
		func(o *store.Outcome) { o.Version-- },
		func(o *store.Outcome) { o.Version++; o.Row = 0 },
		func(o *store.Outcome) {
			o.Last, o.Spend, o.Settle = true, true, 0
			o.Attempt = f.rows[o.Key.ID].row.Attempt
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
		bs[i] = bt("s", id)
	}
	f.add(bs...)
	s.reach(f, is)

	var outcomes []store.Outcome
	i := 0
	for finding := store.Finding(0); finding <= store.Undecidable+1; finding++ {
		for _, by := range []func(batch.ID, store.Finding) store.Outcome{f.submitted, f.monitored} {
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
	f.view("s", 2000)
	f.pending(2000, f.u(0.5))
	if open := f.inOrder(func(s *shadow) bool { return !s.row.Final() }); len(open) > 0 && f.has(store.CanInspect) {
		f.look(open[0].b.ID, 2000) // at the whole lane
	}
}

func recordShown(f *fixture) {
	for name, text := range hostile() {
		if text == "" {
			continue // nobody
		}
		id := batch.ID(name)
		f.add(bt(batch.ServiceID(name), id))
		f.take(id)
		f.each(f.submitted, store.Accepted, id)
		o := f.monitored(id, store.IsPending)
		o.Endpoint = text
		applied, err := f.st.Record(f.ctx, []store.Outcome{o})
		require.NoError(f, err, name)
		row := applied[0].Row
		require.Equal(f, store.Written, applied[0].Result, "%s: %v", name, applied[0].Err)
		assert.Equal(f, row.Attempt, row.SeenAttempt)
		assert.True(f, utf8.ValidString(row.SeenEndpoint), name)
		assert.LessOrEqual(f, len(row.SeenEndpoint), store.MaxEndpointLen, name)
		rows, err := f.st.Pending(f.ctx, store.PendingQuery{Services: []batch.ServiceID{batch.ServiceID(name)}, Limit: 1})
		require.NoError(f, err)
		require.Len(f, rows, 1)
		assert.Equal(f, row.SeenEndpoint, rows[0].Seen, name)
	}
}

func recordLateSubmitter(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	late := f.submitted("a", store.Accepted)
	f.pass(2)
	f.each(f.monitored, store.NotCommitted, "a")
	assert.Equal(f, store.Fenced, f.record(late)[0].Result)
	f.take("a")
	for _, finding := range []store.Finding{store.Accepted, store.Failed, store.Refused, store.Doubtful, store.Unposted} {
		late.Finding = finding
		assert.Equal(f, store.Fenced, f.record(late)[0].Result, finding)
	}
	r := f.get("a")
	assert.Equal(f, batch.Submitting, r.State)
	assert.Equal(f, 2, r.Attempt)
	assert.Equal(f, int64(4), r.Version)
}

func recordLateMonitor(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Accepted, "a")
	f.pass(1)
	read := f.pending(1, f.u(0.5))[0]
	f.each(f.monitored, store.NotCommitted, "a") // another monitor was quicker
	f.take("a")
	f.each(f.submitted, store.Accepted, "a")
	for _, finding := range []store.Finding{store.IsInvalid, store.NotCommitted, store.NoTrace, store.IsValid, store.Refused} {
		o := f.monitored("a", finding)
		o.Version = read.Version
		assert.Equal(f, store.Fenced, f.record(o)[0].Result, finding)
	}
	assert.Equal(f, batch.Pending, f.get("a").State)
}

func recordExpired(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.pass(5)
	f.pending(1, f.u(0.5)) // a lease raises no version
	f.each(f.submitted, store.Accepted, "a")
	assert.Equal(f, batch.Pending, f.get("a").State)
}

func recordFencedCommit(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("s", "c"))
	f.take("a", "b", "c")
	f.each(f.submitted, store.Accepted, "a", "b", "c")
	read := []store.Outcome{f.monitored("a", store.IsCommitted), f.monitored("b", store.IsCommitted), f.monitored("c", store.IsCommitted)}
	f.each(f.monitored, store.NotCommitted, "a")
	f.each(f.monitored, store.IsValid, "b")
	o := f.monitored("c", store.IsInvalid)
	o.Settle = 0
	f.written(o)
	for i, a := range f.record(read...) {
		assert.Equal(f, store.Written, a.Result)
		assert.Equal(f, i == 2, a.Breach, "only c was final")
	}
	for _, id := range []batch.ID{"a", "b", "c"} {
		assert.Equal(f, batch.Committed, f.get(id).State)
	}
}

func recordHeld(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Accepted, "a")
	commit := f.monitored("a", store.IsCommitted)
	f.each(f.monitored, store.NotCommitted, "a")
	f.take("a")
	before := f.get("a")
	for range 2 {
		assert.Equal(f, store.Held, f.record(commit)[0].Result)
		assert.Equal(f, before, f.get("a"))
	}
	f.pass(2)
	assert.Equal(f, store.Written, f.record(commit)[0].Result)
	assert.Equal(f, batch.Committed, f.get("a").State)
	late := f.submitted("a", store.Accepted)
	late.Version = before.Version
	assert.Equal(f, store.Fenced, f.record(late)[0].Result)
}

func recordAlone(f *fixture) {
	f.add(many("s", "b", 4)...)
	f.take("b00001", "b00002", "b00003")
	stale := f.submitted("b00002", store.Accepted)
	stale.Version--
	bad := f.submitted("b00003", store.IsInvalid) // a submitter may not report this
	got := f.record(
		store.Outcome{Ref: store.Ref{Key: batch.Key{Service: "s", ID: "none"}}, Version: 2, By: batch.ByMonitor, Finding: store.IsCommitted},
		stale, f.submitted("b00001", store.Accepted), bad,
		store.Outcome{Ref: store.Ref{Key: batch.Key{Service: "t", ID: "b00001"}}, Version: 2, By: batch.BySubmitter, Finding: store.Accepted},
		f.submitted("b00002", store.Failed),
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
	got = must(f.st.Record(f.ctx, nil))(f)
	assert.Empty(f, got)
}

func recordTwo(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("a", "b")
	got := f.record(f.submitted("a", store.Accepted), f.submitted("b", store.Doubtful), f.submitted("a", store.Failed), f.monitored("b", store.IsCommitted))
	assert.Equal(f, store.Written, got[0].Result)
	assert.Equal(f, store.Fenced, got[2].Result, "the first has raised the version")
	assert.Equal(f, store.Written, got[3].Result, "the doubt has ended the claim")
	assert.Equal(f, batch.Pending, f.get("a").State)
	assert.Equal(f, batch.Committed, f.get("b").State)
}

// An acceptance and the commit may be known together: the submitter records them as one.
func recordAtOnce(f *fixture) {
	bs := many("s", "b", 6)
	f.add(bs...)
	f.take(ids(bs)...)
	f.each(f.submitted, store.IsCommitted, ids(bs)...)
	for _, b := range bs {
		r := f.get(b.ID)
		assert.Equal(f, batch.Committed, r.State)
		assert.False(f, r.LastPost.After(r.FinalAt), "the claim's end is nothing that has happened")
	}
	f.each(f.monitored, store.IsCommitted, "b00001") // this changes nothing
}

func recordLarge(f *fixture) {
	bs := many("s", "b", 1200)
	f.add(bs...)
	f.take(ids(bs)...)
	f.each(f.submitted, store.Accepted, ids(bs)...)
	f.each(f.monitored, store.IsCommitted, ids(bs)...)
	assert.Empty(f, f.view("s", 2000).Batches)
	assert.Empty(f, f.lanes(store.LanesQuery{Start: true, Limit: 9}))
	if f.has(store.CanList) {
		assert.Empty(f, f.list(store.ListQuery{Open: true}))
	}
}

func recordCopies(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Accepted, "a")
	o := f.monitored("a", store.IsInvalid)
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "bad nonce"}
	o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "bad nonce", Data: []byte("data")}}
	got := f.written(o)[0]
	f.rows["a"].row.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "bad nonce"}
	f.rows["a"].row.Receipts = []batch.Receipt{{TransactionID: "t", Message: "bad nonce", Data: []byte("data")}}
	o.Error.Message, o.Receipts[0].Message, o.Receipts[0].Data[0] = "X", "X", 'X'
	got.Row.Error.Message, got.Row.Receipts[0].Message, got.Row.Receipts[0].Data[0] = "Y", "Y", 'Y'
	r := f.get("a")
	r.Error.Message, r.Receipts[0].Message, r.Receipts[0].Data[0] = "Z", "Z", 'Z'
	f.get("a")
}

// recordReceipts: a verdict's receipts go with it, whether the next verdict has fewer or more.
func recordReceipts(f *fixture) {
	receipts := func(n int, valid bool) (rs []batch.Receipt) {
		for i := range n {
			rs = append(rs, batch.Receipt{TransactionID: fmt.Sprintf("t%d of %d", i, n), Valid: valid})
		}
		return rs
	}
	for i, n := range []int{0, 1, 2, 3} {
		id := batch.ID(fmt.Sprint("id", i))
		f.add(bt("s", id))
		f.take(id)
		f.each(f.submitted, store.Accepted, id)
		invalid := f.monitored(id, store.IsInvalid)
		invalid.Settle, invalid.Receipts = f.u(100.5), receipts(2, false)
		f.written(invalid)
		require.Len(f, f.get(id).Receipts, 2)
		f.each(f.monitored, store.IsPending, id)
		require.Empty(f, f.get(id).Receipts)
		again := f.monitored(id, store.IsInvalid)
		again.Settle, again.Receipts = f.u(100.5), receipts(1, false)
		f.written(again)
		require.Len(f, f.get(id).Receipts, 1)
		committed := f.monitored(id, store.IsCommitted)
		committed.Receipts = receipts(n, true)
		f.written(committed)
		require.Len(f, f.get(id).Receipts, n)
	}
}
