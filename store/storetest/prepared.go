package storetest

import (
	"bytes"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func preparedTests() []test {
	return []test{
		{name: "is kept for a claim, and for nothing else", run: testPreparedStandings},
		{name: "is handed out to all that follows", run: testPreparedKept},
		{name: "grows, and never changes", run: testPreparedGrows},
		{name: "ends when it is void", run: testPreparedVoid},
		{name: "or is void, whichever comes first", run: testPreparedOrVoid},
		{name: "does not raise the version", run: testPreparedVersion},
		{name: "ends when the batch is final", run: testPreparedFinal},
		{name: "outlives an operator's word", run: testPreparedDecided},
		{name: "is any bytes, within its bounds", run: testPreparedBounds},
		{name: "is kept of many at once", run: testPreparedMany},
		{name: "is kept of what is stored", run: testPreparedNone},
		{name: "is one of those that come at once", run: testPreparedRace},
		{name: "or the outcome is recorded before it", run: testPreparedOrRecorded},
		{name: "survives", run: testPreparedReopen, isInapplicable: isVolatile},
	}
}

// prepared returns bytes to keep for the batch's present version.
func (f *fixture) prepared(id batch.ID, text string) store.Prepared {
	s := f.batches[id]
	return store.Prepared{Ref: s.ref, Version: s.row.Version, Bytes: []byte(text)}
}

// keepBytes calls KeepPrepared, and compares each result with the model.
func (f *fixture) keepBytes(kept ...store.Prepared) []bool {
	f.Helper()
	f.endWithout(store.CanKeepPrepared)
	got := must(f.store.KeepPrepared(f.ctx, kept))(f)
	want := make([]bool, len(kept))
	for i, p := range kept {
		if s := f.batches[p.Key.ID]; s != nil && s.batch.Key() == p.Key {
			s.row, want[i] = s.row.KeepPrepared(p)
			s.lastReturned = nil // the row has changed without a new version
		}
	}
	require.Equal(f, want, append([]bool{}, got...), "kept")
	return want
}

func testPreparedStandings(f *fixture) {
	named := f.makeOneOfEach()
	for name, id := range named {
		submitting := f.get(id).State == batch.Submitting
		before := f.get(id)
		old := f.prepared(id, "of an earlier claim")
		old.Version--
		assert.Equal(f, []bool{false}, f.keepBytes(old), name)
		assert.Equal(f, []bool{submitting}, f.keepBytes(f.prepared(id, "of this one")), name)
		assert.Equal(f, before, f.get(id), name)
	}
	f.passUnits(2)
	for _, p := range f.pending(100, f.units(9.5)) {
		if f.get(p.Key.ID).State == batch.Submitting {
			assert.Equal(f, "of this one", string(p.Prepared))
		} else {
			assert.Nil(f, p.Prepared)
		}
	}
}

func testPreparedKept(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "other"))
	c := f.claimExactly("a", "other")
	assert.Nil(f, c[0].Prepared)
	require.Equal(f, []bool{true}, f.keepBytes(f.prepared("a", "kept")))
	again := func() {
		f.Helper()
		c := f.claimExactly("a", "other")
		assert.Equal(f, "kept", string(c[0].Prepared))
		assert.Nil(f, c[1].Prepared)
		c[0].Prepared[0] = 'X' // the slice belongs to the caller of Claim
	}
	f.recordEach(f.submitterOutcome, store.Unposted, "a", "other")
	again()
	f.recordEach(f.submitterOutcome, store.Failed, "a", "other")
	f.passUnits(3)
	again()
	f.recordEach(f.submitterOutcome, store.Doubtful, "a", "other")
	f.recordEach(f.monitorOutcome, store.NoTrace, "a", "other")
	again()
	f.passUnits(2) // no outcome is recorded
	due := f.pending(9, f.units(0.5))
	assert.Equal(f, []batch.ID{"a", "other"}, inFlightIDs(due))
	assert.Equal(f, "kept", string(due[0].Prepared))
	due[0].Prepared[0] = 'X'
	assert.Nil(f, due[1].Prepared)
	f.recordEach(f.monitorOutcome, store.NotCommitted, "a", "other")
	again()
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "other")
	f.recordEach(f.monitorOutcome, store.IsInvalid, "a", "other") // an Invalid that may still change
	f.passUnits(1)
	due = f.pending(9, f.units(0.5))
	assert.Equal(f, "kept", string(due[0].Prepared))
	f.recordEach(f.monitorOutcome, store.IsPending, "a", "other")
	f.passUnits(1)
	assert.Equal(f, "kept", string(f.pendingOf(9, f.units(0.5), "s")[0].Prepared))
}

// grownPrepared returns the kept bytes with more appended, for the claim of the batch's present
// version.
func (f *fixture) grownPrepared(id batch.ID, more string) store.Prepared {
	p := f.prepared(id, "")
	p.Was = bytes.Clone(f.batches[id].row.Prepared)
	p.Bytes = append(bytes.Clone(p.Was), more...)
	return p
}

func testPreparedGrows(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	mine := []byte("first")
	p := f.prepared("a", "")
	p.Bytes = mine
	require.Equal(f, []bool{true}, f.keepBytes(p))
	mine[0] = 'X' // the store has not kept the slice
	assert.Equal(f, []bool{true}, f.keepBytes(f.prepared("a", "first")), "the answer was lost")
	assert.Equal(f, []bool{false}, f.keepBytes(f.prepared("a", "second")), "something else is kept")
	longer := f.grownPrepared("a", ", second")
	assert.Equal(f, []bool{true, true, false}, f.keepBytes(longer, longer, p), "of one call, in its order")
	assert.Equal(f, []bool{false}, f.keepBytes(func() store.Prepared {
		late := longer
		late.Was, late.Bytes = []byte("first"), []byte("first, another second")
		return late
	}()), "it has grown since")
	f.recordEach(f.submitterOutcome, store.Unposted, "a")
	assert.Equal(f, []bool{false}, f.keepBytes(longer), "of an earlier claim")
	require.Equal(f, "first, second", string(f.claimExactly("a")[0].Prepared))
	var inputErr *batch.InputError
	for _, was := range []string{"First, second", "first, second, third", "x"} {
		wrong := f.prepared("a", "first, second")
		wrong.Was = []byte(was)
		_, err := f.store.KeepPrepared(f.ctx, []store.Prepared{f.grownPrepared("a", "!"), wrong})
		require.ErrorAs(f, err, &inputErr, was)
	}
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	require.Equal(f, "first, second", string(f.claimExactly("a")[0].Prepared))
	last := f.grownPrepared("a", "")
	last.Bytes = append(last.Bytes, make([]byte, store.MaxPrepared-len(last.Bytes))...)
	require.Equal(f, []bool{true}, f.keepBytes(last))
	f.recordEach(f.submitterOutcome, store.Unposted, "a")
	require.Equal(f, last.Bytes, f.claimExactly("a")[0].Prepared)
}

// testPreparedVoid: a void is about the bytes that it names. Neither the version nor the state
// shows whether a slow process has kept other bytes since.
func testPreparedVoid(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"), newBatch("s", "refused"))
	f.claimExactly("a", "b", "c", "refused")
	f.keepBytes(f.prepared("a", "kept"), f.prepared("refused", "kept"))
	o := f.submitterOutcome("refused", store.Doubtful)
	o.Last = true
	f.recordAll(o)
	f.passUnits(2) // the claims have expired, and their processes may go on
	fenced := func(id batch.ID, named string, was *store.Row) {
		f.Helper()
		o := f.monitorOutcome(id, store.IsVoid)
		o.Prepared, o.Was = []byte(named), was
		assert.Equal(f, store.Fenced, f.record(o)[0].Result, "%q of %s", named, id)
	}
	for _, named := range []string{"other", "kep", "kept, and more", ""} {
		fenced("a", named, nil)
	}
	fenced("b", "kept", nil)
	for id, was := range map[batch.ID]store.Row{"a": f.batches["a"].row, "b": f.batches["b"].row} {
		require.Equal(f, []bool{true}, f.keepBytes(f.grownPrepared(id, ", late"))) // after the row was read
		fenced(id, string(was.Prepared), nil)
		fenced(id, string(was.Prepared), &was)
	}
	for _, id := range []batch.ID{"a", "b", "c"} {
		row := f.recordAll(f.voidOutcome(id))[0].Row
		assert.Equal(f, batch.Unknown, row.State)
		assert.Zero(f, row.DoubtAttempt)
		assert.Nil(f, row.Prepared)
	}
	assert.Equal(f, batch.Rejected, f.recordAll(f.voidOutcome("refused"))[0].Row.State)
	for _, c := range f.claimExactly("a", "b", "c") {
		assert.Nil(f, c.Prepared, "the next attempt prepares anew")
	}
	assert.Equal(f, []bool{true}, f.keepBytes(f.prepared("a", "anew")))
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	assert.Equal(f, batch.Unknown, f.recordAll(f.voidOutcome("a"))[0].Row.State, "pending before")
	f.claimExactly("a")
	f.keepBytes(f.prepared("a", "third"))
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.recordEach(f.monitorOutcome, store.IsValid, "a")
	assert.Equal(f, batch.Unknown, f.recordAll(f.voidOutcome("a"))[0].Row.State, "valid before")
}

// voidOutcome returns an IsVoid about the bytes that the batch keeps.
func (f *fixture) voidOutcome(id batch.ID) store.Outcome {
	o := f.monitorOutcome(id, store.IsVoid)
	o.Prepared = bytes.Clone(f.batches[id].row.Prepared)
	return o
}

// testPreparedOrVoid: if a void and new bytes come at once, one of them is first, and the other
// fails.
func testPreparedOrVoid(f *fixture) {
	for round := range 20 {
		lane := newBatch(batch.ServiceID(fmt.Sprint("lane", round)), batch.ID(fmt.Sprint("id", round)))
		f.add(lane)
		c := f.claimAlone(lane.Service)
		f.passUnits(2)
		var kept, void bool
		errs := runAtOnce(
			func() error {
				got, err := f.store.KeepPrepared(f.ctx, []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte("kept")}})
				kept = err == nil && got[0]
				return err
			},
			func() error {
				got, err := f.store.Record(f.ctx, []store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.ByMonitor, Finding: store.IsVoid}})
				void = err == nil && got[0].Result == store.Written
				return err
			})
		for _, err := range errs {
			require.NoError(f, err)
		}
		require.NotEqual(f, kept, void, "both or neither")
	}
}

func testPreparedVersion(f *fixture) {
	f.add(newBatch("s", "a"))
	c := f.claimExactly("a")[0]
	f.keepBytes(store.Prepared{Ref: c.Ref, Version: c.Version, Bytes: []byte("kept")})
	assert.Equal(f, c.Version, f.get("a").Version)
	assert.Equal(f, store.Written, f.record(store.Outcome{
		Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Attempt: c.Attempt, Finding: store.Accepted, Check: f.units(0.5),
	})[0].Result)
	assert.Equal(f, []bool{false}, f.keepBytes(store.Prepared{Ref: c.Ref, Version: c.Version, Bytes: []byte("late")}), "the outcome is recorded")
	assert.Equal(f, []bool{false}, f.keepBytes(store.Prepared{Ref: c.Ref, Version: c.Version + 1, Bytes: []byte("late")}), "and it is no claim")
}

func testPreparedFinal(f *fixture) {
	for _, finding := range []store.Finding{store.Refused, store.IsInvalid} {
		id := batch.ID(fmt.Sprint("id ", finding))
		f.add(newBatch("s", id))
		f.claimExactly(id)
		f.keepBytes(f.prepared(id, "kept"))
		o := f.submitterOutcome(id, finding)
		if finding == store.IsInvalid {
			f.recordEach(f.submitterOutcome, store.Accepted, id)
			o = f.monitorOutcome(id, finding)
			o.Settle = 0
		}
		assert.Nil(f, f.recordAll(o)[0].Row.Prepared)
		require.NoError(f, f.requeue(id, 0))
		c := f.claimExactly(id)[0]
		assert.Nil(f, c.Prepared, "what was true before the first POST was of another life")
		assert.Equal(f, []bool{true}, f.keepBytes(f.prepared(id, "anew")))
		f.recordEach(f.submitterOutcome, store.Unposted, id)
		assert.Equal(f, "anew", string(f.claimExactly(id)[0].Prepared))
		f.recordEach(f.submitterOutcome, store.Accepted, id)
		f.recordEach(f.monitorOutcome, store.IsCommitted, id)
	}
}

// testPreparedDecided is about bytes that may be sent again for ever.
func testPreparedDecided(f *fixture) {
	forEver := resendRule(math.MaxInt64, 0)
	f.add(newBatch("s", "a"))
	f.claimExactlyBy(forEver, "a")
	f.keepBytes(f.prepared("a", "kept"))
	f.passUnits(2)
	require.NoError(f, f.decide("a", batch.NotExecutedSendAgain, "not there"))
	require.ErrorIs(f, f.cancel("a", "not wanted"), batch.ErrInDoubt)
	c := f.claimExactlyBy(forEver, "a")[0]
	assert.Equal(f, "kept", string(c.Prepared))
	assert.True(f, c.Doubt, "an operator's word does not end it")
	f.passUnits(2)
	require.NoError(f, f.decide("a", batch.NotExecutedReject, "never mind"))
	assert.Equal(f, "given_up: never mind", f.get("a").Error.Error())
	require.ErrorIs(f, f.requeue("a", 0), batch.ErrNotAllowed)
}

func testPreparedBounds(f *fixture) {
	all := make([]byte, store.MaxPrepared)
	for i := range all {
		all[i] = byte(i) // not a text, and with zero bytes
	}
	f.add(newBatches("s", "b", 4)...)
	ids := []batch.ID{"b00004", "b00003", "b00002", "b00001"}
	f.claimExactly(ids...)
	var kept []store.Prepared
	for i, b := range [][]byte{all, {0}, []byte("\\x00"), bytes.Repeat([]byte{0xff}, store.MaxPrepared)} {
		p := f.prepared(ids[i], "")
		p.Bytes = b
		kept = append(kept, p)
	}
	for name, b := range map[string][]byte{"none": nil, "empty": {}, "too long": append(bytes.Clone(all), 0)} {
		bad := kept[3]
		bad.Bytes = b
		_, err := f.store.KeepPrepared(f.ctx, []store.Prepared{kept[0], bad})
		require.ErrorIs(f, err, batch.ErrInvalidInput, name)
	}
	f.recordEach(f.submitterOutcome, store.Unposted, ids...)
	for _, c := range f.claimExactly(ids...) {
		assert.Nil(f, c.Prepared, "all of a call or none")
	}
	for i := range kept {
		kept[i].Version = f.batches[ids[i]].row.Version
	}
	assert.Equal(f, []bool{true, true, true, true}, f.keepBytes(kept...))
	f.recordEach(f.submitterOutcome, store.Unposted, ids...)
	for i, c := range f.claimExactly(ids...) {
		assert.Equal(f, kept[i].Bytes, c.Prepared)
	}
}

func testPreparedMany(f *fixture) {
	assert.Empty(f, must(f.store.KeepPrepared(f.ctx, nil))(f))
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"), newBatch("t", "queued"))
	f.claimExactly("a", "b", "c")
	moved := f.prepared("b", "late")
	f.recordEach(f.submitterOutcome, store.Unposted, "b")
	f.claimExactly("b")
	noRow := f.prepared("c", "of c")
	noRow.Row = 0
	assert.Equal(f, []bool{true, false, false, true, true},
		f.keepBytes(noRow, moved, f.prepared("queued", "too early"), f.prepared("a", "of a"), f.prepared("a", "of a")))
	f.recordEach(f.submitterOutcome, store.Unposted, "a", "b", "c")
	c := f.claimExactly("a", "b", "c")
	assert.Equal(f, "of a", string(c[0].Prepared))
	assert.Nil(f, c[1].Prepared)
	assert.Equal(f, "of c", string(c[2].Prepared))
}

func testPreparedNone(f *fixture) {
	f.add(newBatch("s", "a"))
	c := f.claimExactly("a")[0]
	for _, ref := range []store.Ref{
		{Key: batch.Key{Service: "s", ID: "none"}}, {Key: batch.Key{Service: "t", ID: "a"}}, {Key: batch.Key{Service: "t", ID: "a"}, Row: c.Row},
		{Key: batch.Key{Service: "s", ID: "none"}, Row: c.Row},
	} {
		assert.Equal(f, []bool{false}, f.keepBytes(store.Prepared{Ref: ref, Version: c.Version, Bytes: []byte("kept")}), ref)
	}
	f.recordEach(f.submitterOutcome, store.Refused, "a")
	f.prune(0, false)
	f.add(newBatch("s", "a"))
	again := f.claimExactly("a")[0]
	require.Equal(f, c.Version, again.Version)
	assert.Equal(f, again.Row == c.Row, f.keepUnmodelled(store.Prepared{Ref: c.Ref, Version: c.Version, Bytes: []byte("of the one before")}),
		"a number that was given again is that batch's")
	assert.Equal(f, []bool{true}, f.keepBytes(f.prepared("a", "kept")))
}

// keepUnmodelled calls KeepPrepared without the model.
func (f *fixture) keepUnmodelled(p store.Prepared) bool {
	f.Helper()
	f.endWithout(store.CanKeepPrepared)
	got := must(f.store.KeepPrepared(f.ctx, []store.Prepared{p}))(f)
	require.Len(f, got, 1)
	return got[0]
}

// claimAlone claims the only batch of a lane without the model.
func (f *fixture) claimAlone(service batch.ServiceID) store.Claim {
	f.Helper()
	got := must(f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 1, TTL: f.units(1.5)}, chooseEveryReady))(f)
	require.Len(f, got.Runs, 1)
	return got.Runs[0].Batches[0]
}

func testPreparedRace(f *fixture) {
	for round := range 10 {
		lane := newBatch(batch.ServiceID(fmt.Sprint("lane", round)), batch.ID(fmt.Sprint("id", round)))
		f.add(lane)
		c := f.claimAlone(lane.Service)
		var fs []func() error
		var did atomic.Int32
		for i := range 4 {
			p := store.Prepared{Ref: c.Ref, Version: c.Version, Bytes: []byte(fmt.Sprint("by ", i))}
			fs = append(fs, func() error {
				got, err := f.store.KeepPrepared(f.ctx, []store.Prepared{p})
				if err == nil && got[0] {
					did.Add(1)
				}
				return err
			})
		}
		for _, err := range runAtOnce(fs...) {
			require.NoError(f, err)
		}
		require.EqualValues(f, 1, did.Load(), "what the others prepared is not kept")
		o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Unposted, Back: batch.Queued}
		require.Equal(f, store.Written, must(f.store.Record(f.ctx, []store.Outcome{o}))(f)[0].Result, "the version is as it was")
		require.Contains(f, []string{"by 0", "by 1", "by 2", "by 3"}, string(f.claimAlone(lane.Service).Prepared))
	}
}

// testPreparedOrRecorded: bytes that come after the outcome are not kept, and kept bytes do not
// fence the outcome.
func testPreparedOrRecorded(f *fixture) {
	for round := range 20 {
		lane := newBatch(batch.ServiceID(fmt.Sprint("lane", round)), batch.ID(fmt.Sprint("id", round)))
		f.add(lane)
		c := f.claimAlone(lane.Service)
		var did bool
		errs := runAtOnce(
			func() error {
				got, err := f.store.KeepPrepared(f.ctx, []store.Prepared{{Ref: c.Ref, Version: c.Version, Bytes: []byte("kept")}})
				did = err == nil && got[0]
				return err
			},
			func() error {
				o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Unposted, Back: batch.Queued}
				got, err := f.store.Record(f.ctx, []store.Outcome{o})
				if err == nil && got[0].Result != store.Written {
					err = fmt.Errorf("result %d", got[0].Result)
				}
				return err
			})
		for _, err := range errs {
			require.NoError(f, err)
		}
		require.Equal(f, did, f.claimAlone(lane.Service).Prepared != nil, "what was said, and what is")
	}
}

func testPreparedReopen(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	require.Equal(f, []bool{true}, f.keepBytes(f.prepared("a", "kept")))
	f.reopen()
	f.passUnits(2)
	assert.Equal(f, "kept", string(f.pending(1, f.units(0.5))[0].Prepared))
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	f.reopen()
	assert.Equal(f, "kept", string(f.claimExactly("a")[0].Prepared))
}
