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
// batches without trouble have. The store must notice that a step is not plain. In byStepAnd and
// byCommitAnd one field more changes, which the short statement would not write.
const (
	byFirstClaim = "first claim"
	byLaterClaim = "later claim"
	byHandBack   = "claim that hands back"
	byKeep       = "KeepPrepared"
	byPending    = "Pending"
	byPendingOf  = "Pending of lanes"
	byChecked    = "Checked"
	byRecord     = "Record"
	byEnd        = "Record of an end"
	byLateCommit = "Record of a commit after the end"
	byStep       = "Record of a plain step on a known row"
	byCommit     = "Record of a plain commit on a known row"
	byStepAnd    = "Record of a plain step and one field more on a known row"
	byCommitAnd  = "Record of a plain commit and one field more on a known row"
	byCancel     = "Cancel"
	byRequeue    = "Requeue"
	byDecide     = "Decide that it is unknown"
	byDecideEnd  = "Decide an end"
	byWithdraw   = "Withdraw"
	byAcquit     = "Acquit"
)

// rowNever has the cells that no walk can show, because no batch has such a row.
var rowNever = []struct {
	why, seen    string
	ways, fields []string
}{
	{
		"nothing was tried yet", isSet, []string{byFirstClaim},
		[]string{"AskedAt", "Error", "Failures", "LastPost", "NotBefore", "Prepared", "Resends", "Rollbacks", "SeenAttempt", "SeenEndpoint", "Withdrawn"},
	},
	{"nothing was tried yet", changes, []string{byFirstClaim}, []string{"Resends"}},
	{
		"a batch that waits was not refused", isSet,
		[]string{byFirstClaim, byLaterClaim, byHandBack}, []string{"Refused"},
	},
	{"only what may be sent again for ever is withdrawn", isSet, []string{byHandBack}, []string{"Withdrawn"}},
	{"it is in doubt, and so nobody cancels it", clears, []string{byCancel}, []string{"Withdrawn"}},
	{"nobody was called about it yet", isSet, []string{byFirstClaim, byHandBack}, []string{"Decision"}},
	{
		"they come with a verdict, and go when it is taken back", isSet,
		[]string{byFirstClaim, byLaterClaim, byHandBack, byKeep, byCancel, byDecide, byDecideEnd, byWithdraw}, []string{"Receipts", "SettlesAt"},
	},
	{"an attempt in doubt was posted", changes, []string{byHandBack}, []string{"LastPost"}},
	{"only a store of orders settles them (batch/autobatch/ordertest)", isSet, []string{byLateCommit, byAcquit}, []string{"OrdersSettled"}},
	{"SettlesAt changes, too", changes, []string{byStepAnd}, []string{"Receipts"}},
	{"SettlesAt changes, too", clears, []string{byStepAnd}, []string{"Receipts"}},
	{"they change together", clears, []string{byStepAnd}, []string{"DoubtAttempt", "DoubtSince", "ResendUntil"}},
	{"Resends changes, too", changes, []string{byStepAnd}, []string{"DoubtSince", "ResendUntil"}},
	{"NotBefore changes, too", changes, []string{byStepAnd}, []string{"Failures", "Rollbacks"}},
	{"NotBefore changes, too", clears, []string{byStepAnd}, []string{"Rollbacks"}},
}

// cell is an observation of one field after a write in one way.
type cell struct{ way, field, seen string }

const (
	isSet   = "came back other than zero"
	changes = "changed to other than zero"
	clears  = "changed to zero"
)

type cells map[cell]bool

func (c cells) add(f *fixture, way string, before, after store.Row) {
	for field, value := range reflect.ValueOf(after).Fields() {
		if !value.IsZero() {
			c[cell{way, field.Name, isSet}] = true
		}
	}
	for _, field := range changedFields(f, before, after) {
		c.change(way, field, after)
	}
}

func (c cells) change(way, field string, after store.Row) {
	seen := changes
	if reflect.ValueOf(after).FieldByName(field).IsZero() {
		seen = clears
	}
	c[cell{way, field, seen}] = true
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
	at           time.Time
	allowed      cells
	step, commit []string // the fields that a plain step and a plain commit change
}

func testNewRowRules(f *fixture) *rowRules {
	r := &rowRules{fixture: f, at: f.now(), allowed: cells{}, step: []string{"State", "Version", "ClaimExpires", "NextCheck", "LastPost", "MovedAt"}}
	row := r.row(true, batch.Submitting)
	row.Error, row.Receipts = nil, nil
	r.commit = changedFields(f, row, r.applied(row, store.Outcome{By: batch.ByMonitor, Finding: store.IsCommitted}))
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
	next, a := row.Apply(o, r.at)
	require.Equal(r, store.Written, a.Result, "%s: %v", o.Finding, a.Err)
	return next
}

func (r *rowRules) allow(way string, before, after store.Row) {
	r.allowed.add(r.fixture, way, before, after)
}

func (r *rowRules) allowClaims(full bool) {
	r.Helper()
	for _, way := range []string{byFirstClaim, byLaterClaim, byHandBack} {
		row := r.row(full, batch.Unknown)
		row.ResendUntil = r.at.Add(r.units(1000))
		switch way {
		case byFirstClaim:
			row.State, row.Attempt = batch.Queued, 0
		case byHandBack:
			row.DoubtAttempt, row.ResendUntil = 1, r.at.Add(-r.units(1000))
		}
		lane := []store.LaneRow{{Row: row, Budget: batch.Budget{EveryTry: true}}}
		q := store.ClaimQuery{TTL: r.units(1.5), Instance: "host", Resend: resendRule(r.units(1000.5), 0)}
		require.Len(r, store.PlanLane("s", lane, r.at, q, 1, chooseEveryReady).Changed, 1)
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
					if _, a := row.Apply(o, r.at); a.Result == store.Written {
						a, _ = a.Enforce(batch.Control{}, batch.PolicyQuarantine, r.at)
						r.allowOutcome(row, a.Row)
					}
				}
			}
		}
	}
	late := r.finalRow(full)
	o := store.Outcome{By: batch.ByMonitor, Finding: store.IsCommitted}
	r.allow(byLateCommit, late, r.applied(late, o))
	o.Receipts = filledValue[store.Outcome](r).Receipts
	r.allow(byLateCommit, late, r.applied(late, o))
}

func (r *rowRules) allowOutcome(before, after store.Row) {
	r.allow(byReading(before, after), before, after)
	way, and, more := r.byKnown(before, after)
	if way != "" && len(more) == 0 && !hasErrorOrReceipts(before, after) {
		r.allow(way, before, after)
	}
	for _, field := range more { // rowNever lists the fields that never change alone
		r.allowed.change(and, field, after)
	}
}

// byReading returns the way of an outcome for a store that reads the row first.
func byReading(before, after store.Row) string {
	switch {
	case before.Final():
		return byLateCommit
	case after.Final():
		return byEnd
	}
	return byRecord
}

// byKnown returns the way of the short statement that would fit an outcome, if any, and the way
// with one field more. more are the changed fields that a plain outcome does not change.
func (r *rowRules) byKnown(before, after store.Row) (way, and string, more []string) {
	var plain []string
	switch {
	case before.Final(), after.Final() && after.State != batch.Committed:
		return "", "", nil
	case after.Final():
		way, and, plain = byCommit, byCommitAnd, r.commit
	default:
		way, and, plain = byStep, byStepAnd, r.step
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
		r.allow(byPending, row, row.Leased(r.at, r.units(2)))
		r.allow(byPendingOf, row, row.Leased(r.at, r.units(2)))
		next := row
		next.NextCheck = r.at.Add(r.units(2))
		r.allow(byChecked, row, next)
		if next, ok := row.KeepPrepared(store.Prepared{Version: row.Version, Was: row.Prepared, Bytes: append(bytes.Clone(row.Prepared), "prepared"...)}); ok {
			r.allow(byKeep, row, next)
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
		act(byDecide, row)(row.Decide(r.at, batch.NotExecutedSendAgain, "why"))
		act(byDecideEnd, row)(row.Decide(r.at, batch.NotExecutedReject, "why"))
		act(byDecideEnd, row)(row.Decide(r.at, batch.WasCommitted, "why"))
	}
	if row := r.row(full, batch.Pending); full {
		row.Withdrawn, row.ResendUntil = false, row.DoubtSince.Add(forEver)
		act(byWithdraw, row)(row.Withdraw(r.at))
	}
	row := r.row(full, batch.Submitting)
	row.Refused, row.DoubtAttempt = false, row.Attempt
	row = r.applied(row, store.Outcome{Version: row.Version, By: batch.BySubmitter, Finding: store.Failed, Delay: r.units(1)})
	act(byCancel, row)(row.Cancel(r.at, "why"))
	row = r.finalRow(full)
	act(byAcquit, row)(row.Acquit())
	row.OrdersSettled = false
	row = act(byRequeue, row)(row.Requeue(r.at, store.Requeue{Quiet: r.units(1)}))
	act(byCancel, row)(row.Cancel(r.at, "why"))
}

// requireComplete fails for each cell that the rules allow and the walk has not shown, unless
// rowNever has the cell. It also fails if rowNever has cells that are not needed.
func (r *rowRules) requireComplete(shown cells, known bool) {
	r.Helper()
	never := cells{}
	for _, n := range rowNever {
		for _, way := range n.ways {
			for _, field := range n.fields {
				c := cell{way, field, n.seen}
				never[c] = true
				assert.True(r, r.allowed[c] && !shown[c], "rowNever needs no %v (%s)", c, n.why)
			}
		}
	}
	elsewhere := []string{byStep, byCommit, byStepAnd, byCommitAnd} // the other walk shows these
	if known {
		elsewhere = []string{byRecord, byEnd}
	}
	missing := map[string][]string{}
	for c := range r.allowed {
		if !shown[c] && !never[c] && !slices.Contains(elsewhere, c.way) {
			what := c.way + ": it never " + c.seen + ": "
			missing[what] = append(missing[what], c.field)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(missing)) {
		assert.Fail(r, what+strings.Join(slices.Sorted(slices.Values(missing[what])), ", "),
			"let a step of the walk in row.go do it, or say in rowNever why none can")
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
		*at = r.at.Add(-r.units(float64(*n)))
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
