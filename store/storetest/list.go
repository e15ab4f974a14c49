package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func listTests() []test {
	return []test{
		{name: "filters", run: testListFilters},
		{name: "order across services", run: testListOrder},
		{name: "limits", run: testListLimits},
		{name: "the cursor goes on where it was", run: testListCursor},
		{name: "a record is a place to go on from", run: testListBehind},
		{name: "by age", run: testListAge},
		{name: "a page has so many receipts", run: testListReceipts},
		{name: "the newest first", run: testListNewest},
		{name: "by a tag", run: testListTag},
		{name: "a cursor from elsewhere is an error", run: testListBadCursor},
	}
}

// list reads all pages of a list.
func (f *fixture) list(q store.ListQuery) []batch.ID {
	f.Helper()
	f.endWithout(store.CanList)
	got := []batch.ID{}
	for {
		rs, next := must2(f.store.List(f.ctx, q))(f)
		for _, r := range rs {
			f.requireSameRecord(f.batches[r.ID], r)
		}
		got = append(got, recordIDs(rs)...)
		if next == "" {
			return got
		}
		require.NotEmpty(f, rs, "a page with a cursor goes on")
		require.LessOrEqual(f, len(got), len(f.batches), "a batch is listed twice")
		q.After = next
	}
}

func testListBehind(f *fixture) {
	f.makeOneOfEach()
	all, _ := must2(f.store.List(f.ctx, store.ListQuery{Limit: 1000}))(f)
	for i, r := range all {
		rest, _ := must2(f.store.List(f.ctx, store.ListQuery{Limit: 1000, After: store.CursorAfter(r.CreatedAt, string(r.ID))}))(f)
		require.Equal(f, recordIDs(all[i+1:]), recordIDs(rest), "behind %s", r.Key)
	}
}

func testListFilters(f *fixture) {
	f.makeOneOfEach()
	f.add(newBatch("", "of no service"))
	services := []*batch.ServiceID{nil}
	for _, s := range []batch.ServiceID{"", "valid", "committed", "none"} {
		services = append(services, &s)
	}
	states := [][]batch.State{nil, {batch.Queued}, {batch.Committed, batch.Pending}, batch.States(), {batch.Invalid}, {batch.Unknown}}
	for i, service := range services {
		for _, in := range states {
			for _, open := range []bool{false, true} {
				for _, limit := range []int{1, 3, 1000} {
					want := []batch.ID{}
					for _, s := range f.modelBatches(func(s *modelBatch) bool {
						ok := in == nil
						for _, st := range in {
							ok = ok || st == s.row.State
						}
						return ok && (service == nil || *service == s.batch.Service) && !(open && s.row.Final())
					}) {
						want = append(want, s.batch.ID)
					}
					got := f.list(store.ListQuery{Service: service, States: in, Open: open, Limit: limit})
					require.Equal(f, want, got, "service %d, states %v, open %v, limit %d", i, in, open, limit)
				}
			}
		}
	}
}

func testListOrder(f *fixture) {
	var want []batch.ID
	for i := range 30 {
		b := newBatch(batch.ServiceID(fmt.Sprint(i%4)), batch.ID(fmt.Sprintf("%02d", 99-i)))
		f.tick()
		f.add(b)
		want = append(want, b.ID)
	}
	f.claimExactly("99", "94", "80")
	f.recordEach(f.submitterOutcome, store.Accepted, "94", "80")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "80")
	assert.Equal(f, want, f.list(store.ListQuery{Limit: 7}), "whatever has happened to them")
}

func testListLimits(f *fixture) {
	f.add(newBatches("s", "b", 1001)...)
	for limit, want := range map[int]int{0: 100, -1: 100, 1: 1, 999: 999, 1000: 1000, 5000: 1000} {
		rs, next := must2(f.store.List(f.ctx, store.ListQuery{Limit: limit}))(f)
		assert.Len(f, rs, want, "limit %d", limit)
		assert.NotEmpty(f, next)
	}
}

func testListCursor(f *fixture) {
	bs := newBatches("s", "b", 10)
	f.add(bs...)
	is := batchIDs(bs)
	rs, next := must2(f.store.List(f.ctx, store.ListQuery{Limit: 4}))(f)
	assert.Equal(f, is[:4], recordIDs(rs))
	f.makeCommitted(newBatch("s", "later"))
	f.claimExactly(is[3], is[5])
	f.recordEach(f.submitterOutcome, store.Refused, is[3], is[5])
	f.passUnits(1)
	f.endWithout(store.CanPrune)
	require.Zero(f, must(f.store.Prune(f.ctx, store.PruneQuery{Limit: 2, OlderThan: f.units(2.5)}))(f))
	rs, _ = must2(f.store.List(f.ctx, store.ListQuery{After: next}))(f)
	assert.Equal(f, append(is[4:], "later"), recordIDs(rs), "what is final, and what came since, has its place")
	require.Equal(f, 3, f.prune(0, false), "the cursor's own record, too")
	rs, _ = must2(f.store.List(f.ctx, store.ListQuery{After: next}))(f)
	assert.Equal(f, append([]batch.ID{is[4]}, is[6:10]...), recordIDs(rs))
}

func testListBadCursor(f *fixture) {
	f.add(newBatch("s", "a"))
	for _, c := range []store.Cursor{"nonsense", "\x00", "1", ":", "' or 1=1 --"} {
		_, _, err := f.store.List(f.ctx, store.ListQuery{After: c})
		assert.Error(f, err, "List took %q for a cursor", c)
	}
}

func testListReceipts(f *fixture) {
	for i, n := range []int{600, 400, 1, 1500, 0, 2} {
		b := newBatch("s", batch.ID(fmt.Sprint("b", i)))
		f.add(b)
		f.claimExactly(b.ID)
		f.recordEach(f.submitterOutcome, store.Accepted, b.ID)
		o := f.monitorOutcome(b.ID, store.IsCommitted)
		for j := range n {
			o.Receipts = append(o.Receipts, batch.Receipt{TransactionID: fmt.Sprint("t", j), Valid: true})
		}
		f.recordAll(o)
	}
	q := store.ListQuery{Limit: 1000}
	for _, want := range [][]batch.ID{{"b0", "b1"}, {"b2"}, {"b3"}, {"b4", "b5"}} {
		rs, next := must2(f.store.List(f.ctx, q))(f)
		require.Equal(f, want, recordIDs(rs))
		for _, r := range rs {
			f.requireSameRecord(f.batches[r.ID], r)
		}
		q.After = next
	}
	assert.Empty(f, q.After)
}

func testListAge(f *fixture) {
	for _, name := range []string{"a", "b", "c", "d"} {
		f.add(newBatch("s", batch.ID("s"+name)), newBatch("t", batch.ID("t"+name)))
		f.passUnits(2)
	}
	f.claimExactly("sb", "sc")
	f.recordEach(f.submitterOutcome, store.Refused, "sb")
	f.passUnits(1) // now the batches' ages are 9, 7, 5 and 3 units
	s, none := batch.ServiceID("s"), []batch.ID{}
	for _, c := range []struct {
		older, newer float64
		q            store.ListQuery
		want         []batch.ID
	}{
		{older: 6, want: []batch.ID{"sa", "ta", "sb", "tb"}},
		{newer: 6, want: []batch.ID{"sc", "tc", "sd", "td"}},
		{older: 4, newer: 8, want: []batch.ID{"sb", "tb", "sc", "tc"}},
		{older: 6, newer: 6, want: none},
		{older: 100, want: none},
		{newer: 2, want: none},
		{older: 2, newer: 100, want: []batch.ID{"sa", "ta", "sb", "tb", "sc", "tc", "sd", "td"}},
		{older: -1, newer: -1, q: store.ListQuery{Service: &s}, want: []batch.ID{"sa", "sb", "sc", "sd"}},
		{older: 4, newer: 8, q: store.ListQuery{Service: &s}, want: []batch.ID{"sb", "sc"}},
		{older: 4, newer: 8, q: store.ListQuery{Open: true}, want: []batch.ID{"tb", "sc", "tc"}},
		{older: 4, q: store.ListQuery{Service: &s, Open: true}, want: []batch.ID{"sa", "sc"}},
		{older: 6, q: store.ListQuery{States: []batch.State{batch.Rejected, batch.Submitting}}, want: []batch.ID{"sb"}},
	} {
		for _, limit := range []int{1, 3, 100} {
			c.q.OlderThan, c.q.NewerThan, c.q.Limit = f.units(c.older), f.units(c.newer), limit
			assert.Equal(f, c.want, f.list(c.q), "%+v", c.q)
		}
	}
}

// testListTag: a tag selects the batches that were added with it, in any state, in the order of a
// list and page by page. Prune removes the tag with its batch.
func testListTag(f *fixture) {
	f.endWithout(store.CanList)
	tagged := func(service batch.ServiceID, id batch.ID, tags batch.Tags) batch.Batch {
		b := newBatch(service, id)
		b.Tags = tags
		return b
	}
	all := []batch.Batch{
		tagged("s", "g", batch.Tags{"invoice": "4711"}),
		tagged("t", "f", batch.Tags{"invoice": "4711", "customer": "77"}),
		tagged("s", "e", batch.Tags{"customer": "4711"}),
		tagged("s", "d", batch.Tags{"invoice": "4711", "order": "4711"}),
		tagged("s", "c", batch.Tags{"invoice": "47112", "Invoice": "4711 "}),
		tagged("s", "b", nil),
		tagged("s", "a", batch.Tags{"in'; --": "ü \"%_"}),
	}
	f.add(all...)
	f.claimExactly("g", "e")
	f.recordEach(f.submitterOutcome, store.Accepted, "g", "e")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "g")
	s := batch.ServiceID("s")
	for i, c := range []struct {
		q    store.ListQuery
		want []batch.ID
	}{
		{store.ListQuery{Tag: batch.Tag{Name: "invoice", Value: "4711"}}, []batch.ID{"g", "f", "d"}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711"}}, []batch.ID{"g", "f", "e", "d"}},
		{store.ListQuery{Tag: batch.Tag{Name: "customer", Value: "4711"}}, []batch.ID{"e"}},
		{store.ListQuery{Tag: batch.Tag{Name: "order", Value: "4711"}}, []batch.ID{"d"}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711 "}}, []batch.ID{"c"}},
		{store.ListQuery{Tag: batch.Tag{Name: "in'; --", Value: "ü \"%_"}}, []batch.ID{"a"}},
		{store.ListQuery{Tag: batch.Tag{Value: "ü"}}, []batch.ID{}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711"}, Service: &s}, []batch.ID{"g", "e", "d"}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711"}, Open: true}, []batch.ID{"f", "e", "d"}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711"}, Service: &s, Open: true, States: []batch.State{batch.Queued}}, []batch.ID{"d"}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711"}, States: []batch.State{batch.Committed, batch.Pending}}, []batch.ID{"g", "e"}},
		{store.ListQuery{Tag: batch.Tag{Value: "4711"}, Quarantined: true}, []batch.ID{}},
	} {
		for _, limit := range []int{1, 2, 1000} {
			c.q.Limit = limit
			require.Equal(f, c.want, f.list(c.q), "query %d, limit %d", i, limit)
		}
	}
	for _, bad := range []batch.Tag{{Name: "invoice"}, {Name: "a=b", Value: "c"}, {Value: "\x00"}} {
		_, _, err := f.store.List(f.ctx, store.ListQuery{Tag: bad})
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", bad)
	}
	f.endWithout(store.CanPrune)
	f.passUnits(2)
	require.Equal(f, 1, f.prune(f.units(0.5), true))
	require.Equal(f, []batch.ID{"f", "e", "d"}, f.list(store.ListQuery{Tag: batch.Tag{Value: "4711"}}))
	f.add(all[0])
	require.Equal(f, []batch.ID{"f", "e", "d"}, f.list(store.ListQuery{Tag: batch.Tag{Value: "4711"}}), "only a tombstone is left")
}

// testListNewest reads lists in reverse order: from the end, page by page, and the batches before
// a batch.
func testListNewest(f *fixture) {
	f.endWithout(store.CanList)
	f.makeOneOfEach()
	f.add(newBatches("lane", "b", 7)...)
	f.tick()
	lane := batch.ServiceID("lane")
	for i, q := range []store.ListQuery{
		{}, {Open: true}, {Service: &lane}, {Service: &lane, Open: true}, {States: []batch.State{batch.Committed}}, {Tag: batch.Tag{Value: "storetest"}},
		{OlderThan: time.Microsecond}, {NewerThan: f.units(1000.5)}, {Quarantined: true},
	} {
		q.Limit = 1000
		want := f.list(q)
		slices.Reverse(want)
		for _, q.Limit = range []int{1, 3, 1000} {
			q.NewestFirst = true
			require.Equal(f, want, f.list(q), "query %d, limit %d", i, q.Limit)
		}
	}
	all, _ := must2(f.store.List(f.ctx, store.ListQuery{Service: &lane, Limit: 1000}))(f)
	for i, r := range all {
		q := store.ListQuery{Service: &lane, NewestFirst: true, Limit: 1, After: store.CursorAfter(r.CreatedAt, string(r.ID))}
		before, _ := must2(f.store.List(f.ctx, q))(f)
		require.Equal(f, recordIDs(all[max(0, i-1):i]), recordIDs(before), "before %s", r.Key)
	}
}
