package storetest

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func textTests() []test {
	return []test{
		{name: "hostile texts are stored clean and bounded", run: testTextHostile},
		{name: "a text of a person, too", run: testTextReason},
		{name: "data of receipts is kept to 64 KiB", run: testTextData},
		{name: "a hostile text fails nobody else", run: testTextAlone},
	}
}

func hostileTexts() map[string]string {
	return map[string]string{
		"nul":           "a\x00b",
		"invalid utf-8": "a\xff\xc3\x28b\xed\xa0\x80",
		"controls":      "a\x1b[31mred\r\x07\u0085",
		"long":          strings.Repeat("x", 1<<20),
		"long runes":    strings.Repeat("日", 1000),
		"long garbage":  strings.Repeat("\x00\xff", 1<<19),
		"cut in a rune": strings.Repeat("x", batch.MaxErrorText-1) + "日本",
		"sql":           `'; drop table batches; -- "`,
		"lines":         "one\n\ttwo",
		"empty":         "",
		"format":        "%s %d {} $1 ?",
	}
}

// requireClean checks the form in which a text is kept.
func (f *fixture) requireClean(name, given, kept string) {
	f.Helper()
	assert.True(f, utf8.ValidString(kept), name)
	assert.LessOrEqual(f, len(kept), batch.MaxErrorText, name)
	// Equal is not used, because its message would print the difference of texts of a megabyte.
	assert.True(f, kept == batch.Excerpt(given, batch.MaxErrorText), "%s: kept is %q", name, batch.Excerpt(kept, 100)) //nolint:testifylint // see above
}

func testTextHostile(f *fixture) {
	for name, text := range hostileTexts() {
		id := batch.ID(name)
		f.add(newBatch(batch.ServiceID(name), id)) // each batch has its own lane, since the model does not see these outcomes
		f.claimExactly(id)
		f.recordEach(f.submitterOutcome, store.Accepted, id)
		o := f.monitorOutcome(id, store.IsInvalid)
		o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: text}
		o.Receipts = []batch.Receipt{{TransactionID: text, Message: text, Data: []byte(text)}}
		got := must(f.store.Record(f.ctx, []store.Outcome{o}))(f)
		require.Equal(f, store.Written, got[0].Result)
		r := must(f.store.Get(f.ctx, o.Key))(f)
		for _, kept := range []struct {
			e  *batch.SubmissionError
			rs []batch.Receipt
		}{{r.Error, r.Receipts}, {got[0].Row.Error, got[0].Row.Receipts}} {
			require.NotNil(f, kept.e, name)
			f.requireClean(name, text, kept.e.Message)
			require.Len(f, kept.rs, 1)
			f.requireClean(name, text, kept.rs[0].Message)
			assert.True(f, utf8.ValidString(kept.rs[0].TransactionID), name)
			assert.NotContains(f, kept.rs[0].TransactionID, "\x00", name)
			assert.LessOrEqual(f, len(kept.rs[0].TransactionID), batch.MaxErrorText)
			assert.True(f, bytes.Equal([]byte(text)[:min(len(text), 64<<10)], kept.rs[0].Data), "data of %s", name)
		}

		undecided := batch.ID("undecided " + name)
		f.add(newBatch(batch.ServiceID(undecided), undecided))
		f.claimExactly(undecided)
		o = f.submitterOutcome(undecided, store.Doubtful)
		o.Error = &batch.SubmissionError{Kind: batch.ErrorKind(text), Message: text}
		must(f.store.Record(f.ctx, []store.Outcome{o}))(f)
		o.By, o.Version, o.Finding = batch.ByMonitor, o.Version+1, store.Undecidable
		got = must(f.store.Record(f.ctx, []store.Outcome{o}))(f)
		require.Equal(f, store.Written, got[0].Result)
		r = must(f.store.Get(f.ctx, o.Key))(f)
		assert.True(f, utf8.ValidString(r.Decision), name)
		assert.NotContains(f, r.Decision, "\x00", name)
		assert.LessOrEqual(f, len(r.Decision), 2*batch.MaxErrorText)
	}
}

func testTextReason(f *fixture) {
	for name, text := range hostileTexts() {
		f.add(newBatch("s", batch.ID(name)), newBatch("t", batch.ID("t "+name)))
		require.NoError(f, f.cancel(batch.ID(name), text))
		f.requireClean(name, text, f.get(batch.ID(name)).Error.Message)
		f.claimExactly(batch.ID("t " + name))
		f.recordEach(f.submitterOutcome, store.Doubtful, batch.ID("t "+name))
		require.NoError(f, f.decide(batch.ID("t "+name), batch.NotExecutedReject, text))
		f.requireClean(name, text, f.get(batch.ID("t "+name)).Error.Message)
	}
}

func testTextData(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	o := f.monitorOutcome("a", store.IsInvalid)
	exact := bytes.Repeat([]byte{0, 255, '\'', '\\'}, 16<<10)
	o.Receipts = []batch.Receipt{{TransactionID: "exact", Data: exact}, {TransactionID: "over", Data: append(bytes.Clone(exact), 1)}, {TransactionID: "none"}}
	require.Equal(f, store.Written, must(f.store.Record(f.ctx, []store.Outcome{o}))(f)[0].Result)
	r := must(f.store.Get(f.ctx, o.Key))(f)
	require.Len(f, r.Receipts, 3)
	assert.True(f, bytes.Equal(exact, r.Receipts[0].Data))
	assert.True(f, bytes.Equal(exact, r.Receipts[1].Data))
	assert.Empty(f, r.Receipts[2].Data)
}

func testTextAlone(f *fixture) {
	f.add(newBatches("s", "b", 3)...)
	is := []batch.ID{"b00003", "b00002", "b00001"}
	f.claimExactly(is...)
	var os []store.Outcome
	for _, id := range is {
		os = append(os, f.submitterOutcome(id, store.Failed))
	}
	os[1].Error = &batch.SubmissionError{Kind: "\x00\xff", Message: strings.Repeat("\x00", 1<<20)}
	got := must(f.store.Record(f.ctx, os))(f)
	for i, a := range got {
		assert.Equal(f, store.Written, a.Result)
		assert.Equal(f, batch.Delayed, a.Row.State, is[i])
	}
}
