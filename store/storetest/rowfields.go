package storetest

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// These are the ways by which a store writes a row. A store that gets the row with an outcome need
// not read it first. Such stores have short statements for plain steps and plain commits, which
// batches without trouble have. The store must notice that a step is not plain. In wayStepAndMore
// and wayCommitAndMore one field more changes, which the short statement would not write.
const (
	wayFirstClaim    = "first claim"
	wayLaterClaim    = "later claim"
	wayHandBack      = "claim that hands back"
	wayKeepPrepared  = "KeepPrepared"
	wayPending       = "Pending"
	wayPendingOf     = "Pending of lanes"
	wayChecked       = "Checked"
	wayRecord        = "Record"
	wayRecordEnd     = "Record of an end"
	wayLateCommit    = "Record of a commit after the end"
	wayPlainStep     = "Record of a plain step on a known row"
	wayPlainCommit   = "Record of a plain commit on a known row"
	wayStepAndMore   = "Record of a plain step and one field more on a known row"
	wayCommitAndMore = "Record of a plain commit and one field more on a known row"
	wayCancel        = "Cancel"
	wayRequeue       = "Requeue"
	wayDecide        = "Decide that it is unknown"
	wayDecideEnd     = "Decide an end"
	wayWithdraw      = "Withdraw"
	wayAcquit        = "Acquit"
)

// neverObserved has the cells that no scenario can show, because no batch has such a row.
var neverObserved = []struct {
	why, seen    string
	ways, fields []string
}{
	{
		"nothing was tried yet", seenSet, []string{wayFirstClaim},
		[]string{"AskedAt", "Error", "Failures", "LastPost", "NotBefore", "Prepared", "Resends", "Rollbacks", "SeenAttempt", "SeenEndpoint", "Withdrawn"},
	},
	{"nothing was tried yet", seenChanged, []string{wayFirstClaim}, []string{"Resends"}},
	{
		"a batch that waits was not refused", seenSet,
		[]string{wayFirstClaim, wayLaterClaim, wayHandBack}, []string{"Refused"},
	},
	{"only what may be sent again for ever is withdrawn", seenSet, []string{wayHandBack}, []string{"Withdrawn"}},
	{"it is in doubt, and so nobody cancels it", seenCleared, []string{wayCancel}, []string{"Withdrawn"}},
	{"nobody was called about it yet", seenSet, []string{wayFirstClaim, wayHandBack}, []string{"Decision"}},
	{
		"they come with a verdict, and go when it is taken back", seenSet,
		[]string{wayFirstClaim, wayLaterClaim, wayHandBack, wayKeepPrepared, wayCancel, wayDecide, wayDecideEnd, wayWithdraw}, []string{"Receipts", "SettlesAt"},
	},
	{"an attempt in doubt was posted", seenChanged, []string{wayHandBack}, []string{"LastPost"}},
	{"only a store of orders settles them (batch/autobatch/ordertest)", seenSet, []string{wayLateCommit, wayAcquit}, []string{"OrdersSettled"}},
	{"SettlesAt changes, too", seenChanged, []string{wayStepAndMore}, []string{"Receipts"}},
	{"SettlesAt changes, too", seenCleared, []string{wayStepAndMore}, []string{"Receipts"}},
	{"they change together", seenCleared, []string{wayStepAndMore}, []string{"DoubtAttempt", "DoubtSince", "ResendUntil"}},
	{"Resends changes, too", seenChanged, []string{wayStepAndMore}, []string{"DoubtSince", "ResendUntil"}},
	{"NotBefore changes, too", seenChanged, []string{wayStepAndMore}, []string{"Failures", "Rollbacks"}},
	{"NotBefore changes, too", seenCleared, []string{wayStepAndMore}, []string{"Rollbacks"}},
}

// fieldObservation is an observation of one field after a write in one way.
type fieldObservation struct{ way, field, seen string }

const (
	seenSet     = "came back other than zero"
	seenChanged = "changed to other than zero"
	seenCleared = "changed to zero"
)

type fieldObservations map[fieldObservation]bool

func (c fieldObservations) add(f *fixture, way string, before, after store.Row) {
	for field, value := range reflect.ValueOf(after).Fields() {
		if !value.IsZero() {
			c[fieldObservation{way, field.Name, seenSet}] = true
		}
	}
	for _, field := range changedFields(f, before, after) {
		c.change(way, field, after)
	}
}

func (c fieldObservations) change(way, field string, after store.Row) {
	seen := seenChanged
	if reflect.ValueOf(after).FieldByName(field).IsZero() {
		seen = seenCleared
	}
	c[fieldObservation{way, field, seen}] = true
}

// changedFields returns the names of the fields that differ. Times that the suite takes as equal
// do not differ.
func changedFields(f *fixture, before, after store.Row) (names []string) {
	b, a := reflect.ValueOf(before), reflect.ValueOf(withNearTimesOf(f, before, after))
	for i := range a.NumField() {
		if !reflect.DeepEqual(b.Field(i).Interface(), a.Field(i).Interface()) {
			names = append(names, a.Type().Field(i).Name)
		}
	}
	return names
}

// rowRules finds the cells that the rules allow. It applies the rules to rows with every field
// set, although few batches have such rows, and to rows with almost no field set.
type rowRules struct {
	*fixture
	appliedAt                          time.Time
	allowedObservations                fieldObservations
	plainStepFields, plainCommitFields []string // the fields that a plain step and a plain commit change
}

func testNewRowRules(f *fixture) *rowRules {
	r := &rowRules{fixture: f, appliedAt: f.now(), allowedObservations: fieldObservations{}, plainStepFields: []string{"State", "Version", "ClaimExpires", "NextCheck", "LastPost", "MovedAt"}}
	row := r.row(true, batch.Submitting)
	row.Error, row.Receipts = nil, nil
	r.plainCommitFields = changedFields(f, row, r.applied(row, store.Outcome{By: batch.ByMonitor, Finding: store.IsCommitted}))
	for _, full := range []bool{true, false} {
		r.allowClaims(full)
		r.allowOutcomes(full)
		r.allowAsks(full)
		r.allowActs(full)
	}
	return r
}

// row returns an open row. A full row has every field that does not belong to final rows only.
func (r *rowRules) row(full bool, s batch.State) store.Row {
	r.Helper()
	if !full {
		return store.Row{State: s, Version: 1, Attempt: 1}
	}
	row := filledValue[store.Row](r)
	row.State, row.FinalAt, row.Quarantined, row.OrdersSettled = s, time.Time{}, false, false
	return row
}

// finalRow returns a final row. A full row has every field that the end of a batch does not clear.
func (r *rowRules) finalRow(full bool) store.Row {
	r.Helper()
	row, o := r.row(full, batch.Pending), store.Outcome{}
	if full {
		o = filledValue[store.Outcome](r)
	}
	o.Version, o.By, o.Finding, o.Attempt, o.Settle = row.Version, batch.ByMonitor, store.IsInvalid, 0, 0
	row = r.applied(row, o)
	row.Quarantined, row.OrdersSettled = true, full
	return row
}

func (r *rowRules) applied(row store.Row, o store.Outcome) store.Row {
	r.Helper()
	next, a := row.Apply(o, r.appliedAt)
	require.Equal(r, store.Written, a.Result, "%s: %v", o.Finding, a.Err)
	return next
}

func (r *rowRules) allow(way string, before, after store.Row) {
	r.allowedObservations.add(r.fixture, way, before, after)
}

func (r *rowRules) allowClaims(full bool) {
	r.Helper()
	for _, way := range []string{wayFirstClaim, wayLaterClaim, wayHandBack} {
		row := r.row(full, batch.Unknown)
		row.ResendUntil = r.appliedAt.Add(r.units(1000))
		switch way {
		case wayFirstClaim:
			row.State, row.Attempt = batch.Queued, 0
		case wayHandBack:
			row.DoubtAttempt, row.ResendUntil = 1, r.appliedAt.Add(-r.units(1000))
		}
		lane := []store.LaneRow{{Row: row, Budget: batch.Budget{EveryTry: true}}}
		q := store.ClaimQuery{TTL: r.units(1.5), Instance: "host", Resend: resendRule(r.units(1000.5), 0)}
		require.Len(r, store.PlanLane("s", lane, r.appliedAt, q, 1, chooseEveryReady).Changed, 1)
		r.allow(way, row, lane[0].Row)
	}
}

// allowOutcomes applies each finding to many rows: with every field of the outcome set, with each
// field alone, and with none.
func (r *rowRules) allowOutcomes(full bool) {
	r.Helper()
	news := reflect.ValueOf(filledValue[store.Outcome](r))
	for _, s := range []batch.State{batch.Queued, batch.Submitting, batch.Pending, batch.Invalid} {
		for kind := range 16 {
			row := r.row(full, s)
			if kind&1 != 0 {
				row.DoubtAttempt = row.Attempt
			}
			if kind&2 != 0 {
				row.Refused = !row.Refused
			}
			if kind&4 != 0 {
				row.Error, row.Receipts = nil, nil
			}
			if kind&8 != 0 { // a withdrawn batch ends in cases in which others go on
				row.Withdrawn = false
			}
			for finding := store.Accepted; finding <= store.HasReceipts; finding++ {
				for only := -1; only <= news.NumField(); only++ {
					o := store.Outcome{Version: row.Version, By: batch.ByMonitor, Finding: finding, Attempt: row.Attempt, Back: batch.Unknown}
					if finding <= store.Refused {
						o.By = batch.BySubmitter
					}
					for i := range news.NumField() {
						if v := reflect.ValueOf(&o).Elem().Field(i); v.IsZero() && (only < 0 || only == i) {
							v.Set(news.Field(i))
						}
					}
					if _, a := row.Apply(o, r.appliedAt); a.Result == store.Written {
						a, _ = a.Enforce(batch.Control{}, batch.PolicyQuarantine, r.appliedAt)
						r.allowOutcome(row, a.Row)
					}
				}
			}
		}
	}
	late := r.finalRow(full)
	o := store.Outcome{By: batch.ByMonitor, Finding: store.IsCommitted}
	r.allow(wayLateCommit, late, r.applied(late, o))
	o.Receipts = filledValue[store.Outcome](r).Receipts
	r.allow(wayLateCommit, late, r.applied(late, o))
}

func (r *rowRules) allowOutcome(before, after store.Row) {
	r.allow(wayOfReadRow(before, after), before, after)
	way, and, more := r.wayOfKnownRow(before, after)
	if way != "" && len(more) == 0 && !hasErrorOrReceipts(before, after) {
		r.allow(way, before, after)
	}
	for _, field := range more { // neverObserved lists the fields that never change alone
		r.allowedObservations.change(and, field, after)
	}
}

// wayOfReadRow returns the way of an outcome for a store that reads the row first.
func wayOfReadRow(before, after store.Row) string {
	switch {
	case before.Final():
		return wayLateCommit
	case after.Final():
		return wayRecordEnd
	}
	return wayRecord
}

// wayOfKnownRow returns the way of the short statement that would fit an outcome, if any, and the
// way with one field more. more are the changed fields that a plain outcome does not change.
func (r *rowRules) wayOfKnownRow(before, after store.Row) (way, and string, more []string) {
	var plain []string
	switch {
	case before.Final(), after.Final() && after.State != batch.Committed:
		return "", "", nil
	case after.Final():
		way, and, plain = wayPlainCommit, wayCommitAndMore, r.plainCommitFields
	default:
		way, and, plain = wayPlainStep, wayStepAndMore, r.plainStepFields
	}
	for _, field := range changedFields(r.fixture, before, after) {
		if !slices.Contains(plain, field) {
			more = append(more, field)
		}
	}
	return way, and, more
}

// hasErrorOrReceipts reports whether there is an error or a receipt, which no plain row has. If
// one of these two is the only field in more, it does not count.
func hasErrorOrReceipts(before, after store.Row, more ...string) bool {
	either := func(field string, there bool) bool { return there && !slices.Equal(more, []string{field}) }
	return either("Error", before.Error != nil || after.Error != nil) || either("Receipts", len(before.Receipts)+len(after.Receipts) > 0)
}

// allowAsks adds the changes that the monitor and the submitter write without an outcome.
func (r *rowRules) allowAsks(full bool) {
	r.Helper()
	for _, s := range []batch.State{batch.Submitting, batch.Pending, batch.Valid, batch.Invalid} {
		row := r.row(full, s)
		r.allow(wayPending, row, row.Leased(r.appliedAt, r.units(2)))
		r.allow(wayPendingOf, row, row.Leased(r.appliedAt, r.units(2)))
		next := row
		next.NextCheck = r.appliedAt.Add(r.units(2))
		r.allow(wayChecked, row, next)
		if next, ok := row.KeepPrepared(store.Prepared{Version: row.Version, Was: row.Prepared, Bytes: append(bytes.Clone(row.Prepared), "prepared"...)}); ok {
			r.allow(wayKeepPrepared, row, next)
		}
	}
}

// allowActs adds the changes that operators write.
func (r *rowRules) allowActs(full bool) {
	r.Helper()
	act := func(way string, before store.Row) func(store.Row, error) store.Row {
		return func(after store.Row, err error) store.Row {
			r.Helper()
			require.NoError(r, err, way)
			r.allow(way, before, after)
			return after
		}
	}
	for _, s := range []batch.State{batch.Submitting, batch.Pending} {
		row := r.row(full, s)
		row.Decision = "needs a decision"
		act(wayDecide, row)(row.Decide(r.appliedAt, batch.NotExecutedSendAgain, "why"))
		act(wayDecideEnd, row)(row.Decide(r.appliedAt, batch.NotExecutedReject, "why"))
		act(wayDecideEnd, row)(row.Decide(r.appliedAt, batch.WasCommitted, "why"))
	}
	if row := r.row(full, batch.Pending); full {
		row.Withdrawn, row.ResendUntil = false, row.DoubtSince.Add(forEver)
		act(wayWithdraw, row)(row.Withdraw(r.appliedAt))
	}
	row := r.row(full, batch.Submitting)
	row.Refused, row.DoubtAttempt = false, row.Attempt
	row = r.applied(row, store.Outcome{Version: row.Version, By: batch.BySubmitter, Finding: store.Failed, Delay: r.units(1)})
	act(wayCancel, row)(row.Cancel(r.appliedAt, "why"))
	row = r.finalRow(full)
	act(wayAcquit, row)(row.Acquit())
	row.OrdersSettled = false
	row = act(wayRequeue, row)(row.Requeue(r.appliedAt, store.Requeue{Quiet: r.units(1)}))
	act(wayCancel, row)(row.Cancel(r.appliedAt, "why"))
}

// requireComplete fails for each cell that the rules allow and the scenario has not shown, unless
// neverObserved has the cell. It also fails if neverObserved has cells that are not needed.
func (r *rowRules) requireComplete(shown fieldObservations, known bool) {
	r.Helper()
	never := fieldObservations{}
	for _, n := range neverObserved {
		for _, way := range n.ways {
			for _, field := range n.fields {
				c := fieldObservation{way, field, n.seen}
				never[c] = true
				assert.True(r, r.allowedObservations[c] && !shown[c], "neverObserved needs no %v (%s)", c, n.why)
			}
		}
	}
	elsewhere := []string{wayPlainStep, wayPlainCommit, wayStepAndMore, wayCommitAndMore} // the other scenario shows these
	if known {
		elsewhere = []string{wayRecord, wayRecordEnd}
	}
	missing := map[string][]string{}
	for c := range r.allowedObservations {
		if !shown[c] && !never[c] && !slices.Contains(elsewhere, c.way) {
			what := c.way + ": it never " + c.seen + ": "
			missing[what] = append(missing[what], c.field)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(missing)) {
		assert.Fail(r, what+strings.Join(slices.Sorted(slices.Values(missing[what])), ", "),
			"let a step of the scenario in row.go do it, or say in neverObserved why none can")
	}
}

// filledValue returns a value without a zero field.
func filledValue[T any](r *rowRules) (v T) {
	r.Helper()
	n := 0
	r.fill(reflect.ValueOf(&v).Elem(), reflect.TypeFor[T]().Name(), &n)
	return v
}

// fill sets v, which is the nth value, to a value that is not zero and, if its type allows that,
// differs from the values before.
func (r *rowRules) fill(v reflect.Value, name string, n *int) {
	r.Helper()
	*n++
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = r.appliedAt.Add(-r.units(float64(*n)))
		return
	case *time.Duration:
		*at = r.units(float64(*n))
		return
	case **store.Row: // Outcome.Was is not part of the finding
		return
	}
	switch {
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.String:
		v.SetString(name)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem(), name, n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		r.fill(v.Index(0), name, n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i), name+"."+v.Type().Field(i).Name, n)
		}
	default:
		require.FailNow(r, "let fill make a "+v.Type().String()+" that is not zero, for "+name)
	}
}
