package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/acts"
	"github.com/dltbatch/dltbatch/store"
)

// MaxBulk is the largest number of batches in one bulk action.
const MaxBulk = 100_000

const (
	maxShownRecords = 100    // most records that a preview shows
	chunkBatches    = 100    // batches between two reports of progress
	maxKeptLanes    = 10_000 // about this many lanes' reasons are remembered; reasons of other lanes are read again
)

// Filter selects batches: a batch must meet all conditions. The zero value selects all batches. An
// age below 0, and a list that is empty and not nil, give a [*batch.InputError]: taken as no
// condition, they would select batches that nobody meant.
type Filter struct {
	Service *batch.ServiceID `json:"service,omitzero"`
	// Tag is as in [store.ListQuery]; the zero value is no condition.
	Tag    batch.Tag     `json:"tag,omitzero"`
	States []batch.State `json:"states,omitzero"`
	// Kinds selects batches by the kind of their last error.
	Kinds []batch.ErrorKind `json:"kinds,omitzero"`
	// Causes selects open batches by the cause that [Desk.Causes] gives, and final batches by the
	// cause that [Desk.Explain] gives.
	Causes []batch.Cause `json:"causes,omitzero"`
	// Quarantined is true to select only batches that a policy set aside.
	Quarantined bool `json:"quarantined,omitzero"`
	// OlderThan and NewerThan bound the age, as in [store.ListQuery].
	OlderThan time.Duration `json:"older_than_ns,omitzero"`
	NewerThan time.Duration `json:"newer_than_ns,omitzero"`
}

// check returns an error for a condition that every batch meets.
func (f Filter) check() error {
	for _, list := range []struct {
		field   string
		isEmpty bool
	}{
		{"States", f.States != nil && len(f.States) == 0},
		{"Kinds", f.Kinds != nil && len(f.Kinds) == 0},
		{"Causes", f.Causes != nil && len(f.Causes) == 0},
	} {
		if list.isEmpty {
			return &batch.InputError{Field: "Filter." + list.field, Value: "[]", Want: "one entry or more, or nil for all"}
		}
	}
	return checkAges("Filter", f.OlderThan, f.NewerThan)
}

// checkAges returns an error for a bound of the age that the stores would treat as no bound. The
// parameter of is the name of the struct in the error.
func checkAges(of string, older, newer time.Duration) error {
	for _, age := range []struct {
		field string
		age   time.Duration
	}{{"OlderThan", older}, {"NewerThan", newer}} {
		if age.age < 0 {
			return &batch.InputError{Field: of + "." + age.field, Value: age.age.String(), Want: "an age above 0, or 0 for any age"}
		}
	}
	return nil
}

// Bulk is an act upon all batches that a filter selects and whose state admits the act.
type Bulk struct {
	// Action is ActionCancel, ActionRequeue, ActionDecide or ActionAcquit. ActionDecide is done
	// only to batches that need a decision.
	Action batch.Action `json:"action"`
	Ruling batch.Ruling `json:"ruling,omitzero"` // with ActionDecide
	Filter Filter       `json:"filter"`
}

// Seen is a batch as it was at a preview. An act applies to this version of the batch; if the
// batch has another version by now, the act does nothing.
type Seen struct {
	batch.Key
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
}

// CauseCount is a number of batches that wait for the same reason.
type CauseCount struct {
	Reason
	Batches int `json:"batches"`
}

// Selection holds the batches of a bulk action: those that matched at one preview. It can be
// written as JSON, so that a person reads it in one process and [Desk.Run] carries it out in
// another.
type Selection struct {
	Bulk Bulk `json:"bulk"`
	// At is when the preview began, on the database's clock.
	At time.Time `json:"at"`
	// Batches are sorted by order key.
	Batches []Seen `json:"batches"`
	// More is true if more batches match: Batches then holds the first [MaxBulk].
	More   bool           `json:"more,omitzero"`
	Causes []CauseCount   `json:"causes"` // the largest first
	First  []batch.Record `json:"first"`  // the first hundred
	// Token is a digest of the bulk action, the time and the batches. Run refuses a selection
	// whose token does not match, because the selection was changed after its preview.
	Token string `json:"token"`
}

// NotDone is a batch upon which the bulk action did not act.
type NotDone struct {
	batch.Key
	Why string `json:"why"`
	// Changed is true if the batch has changed since the preview, or was removed.
	Changed bool `json:"changed,omitzero"`
}

// Report says how far a bulk action has come.
type Report struct {
	Token    string `json:"token"`
	Selected int    `json:"selected"`
	Done     int    `json:"done"`
	// NotDone holds the batches that had their turn and were not acted upon.
	NotDone []NotDone `json:"not_done"`
	// Next is the index in Selection.Batches from which another Run continues. It equals the field
	// Selected once all batches have had their turn.
	Next int `json:"next"`
}

// RunOptions are for [Desk.Run].
type RunOptions struct {
	// From is the index in Selection.Batches to begin at: Report.Next of an earlier Run. To begin
	// again at 0 is harmless: batches that were acted upon have changed, and are reported as
	// changed.
	From int
	// Progress is called after each chunk of 100 batches, unless it is nil. It must not keep
	// NotDone.
	Progress func(Report)
}

// Preview selects batches for a bulk action and changes nothing. It reads, page by page, all
// records of the service, or of the store, whose states the action admits; final batches may make
// that a long history. It finds causes as [Desk.Causes] does. It needs a store with
// [store.CanList] and [store.CanSurvey].
func (d *Desk) Preview(ctx context.Context, b Bulk) (Selection, error) {
	sel, err := d.preview(ctx, b)
	if err != nil {
		return Selection{}, fmt.Errorf("preview of %s: %w", b.Action, err)
	}
	return sel, nil
}

func (d *Desk) preview(ctx context.Context, b Bulk) (Selection, error) {
	q, err := b.listQuery()
	if err != nil {
		return Selection{}, err
	}
	now, err := d.store.Survey(ctx, store.SurveyQuery{Services: []batch.ServiceID{}})
	if err != nil {
		return Selection{}, err
	}
	sel := Selection{Bulk: b, At: now.At, Batches: []Seen{}, First: []batch.Record{}}
	causes, v := map[Reason]int{}, d.newView()
	reasons := map[batch.ServiceID]laneReasons{}
	for len(q.States) > 0 && !sel.More {
		page, next, err := d.store.List(ctx, q)
		if err != nil {
			return Selection{}, err
		}
		page = slices.DeleteFunc(page, func(rec batch.Record) bool { return !b.admits(rec) })
		if err := v.addReasons(ctx, page, reasons); err != nil {
			return Selection{}, err
		}
		for _, rec := range page {
			why := reasons[rec.Service].reasonOf(rec)
			if len(b.Filter.Causes) > 0 && !slices.Contains(b.Filter.Causes, why.Cause) {
				continue
			}
			if sel.More = len(sel.Batches) == MaxBulk; sel.More {
				break
			}
			sel.Batches = append(sel.Batches, Seen{rec.Key, rec.Version, rec.CreatedAt})
			causes[why]++
			if len(sel.First) < maxShownRecords {
				sel.First = append(sel.First, rec)
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	sel.Causes = countList(causes)
	sel.Token, err = sel.token()
	return sel, err
}

// listQuery returns the list query that finds the records for the bulk action. If the query names
// no state, no record can match.
func (b Bulk) listQuery() (store.ListQuery, error) {
	f := b.Filter
	if err := f.check(); err != nil {
		return store.ListQuery{}, err
	}
	q := store.ListQuery{
		Service: f.Service, Tag: f.Tag, Quarantined: f.Quarantined, OlderThan: f.OlderThan, NewerThan: f.NewerThan, Limit: 1000,
	}
	switch b.Action {
	case batch.ActionCancel:
		q.States = []batch.State{batch.Queued, batch.Delayed, batch.Unknown}
	case batch.ActionRequeue:
		q.States = []batch.State{batch.Invalid, batch.Rejected}
	case batch.ActionAcquit:
		q.States, q.Quarantined = []batch.State{batch.Invalid, batch.Rejected}, true
	case batch.ActionDecide:
		q.States = []batch.State{batch.Submitting, batch.Pending, batch.Valid}
		if err := b.Ruling.Validate(); err != nil {
			return q, err
		}
	default:
		return q, &batch.InputError{Field: "Bulk.Action", Value: batch.Excerpt(string(b.Action), 64), Want: "cancel, requeue, decide or acquit"}
	}
	if len(f.States) > 0 {
		q.States = slices.DeleteFunc(q.States, func(s batch.State) bool { return !slices.Contains(f.States, s) })
	}
	return q, nil
}

// admits reports whether the bulk action may be done to a record that the query found.
func (b Bulk) admits(rec batch.Record) bool {
	switch {
	case b.Action == batch.ActionDecide && !isUndecided(rec):
		return false
	case b.Action == batch.ActionCancel && !rec.DoubtSince.IsZero():
		return false // Cancel refuses a batch in doubt; a person decides the doubt
	case b.Action == batch.ActionRequeue && !rec.Final():
		return false // an Invalid batch that may still be committed
	}
	return len(b.Filter.Kinds) == 0 || slices.Contains(b.Filter.Kinds, kindOf(rec.Error))
}

// isUndecided reports [store.Row.Undecided] for a record.
func isUndecided(rec batch.Record) bool {
	return store.Row{Decision: rec.Decision, Error: rec.Error}.Undecided()
}

// laneReasons holds the reasons why the open batches of a lane wait.
type laneReasons struct {
	shownReasons map[batch.ID]Reason
	otherReason  Reason // of the batches behind those in shownReasons
}

// reasonOf returns the reason why the batch of a record waits.
func (l laneReasons) reasonOf(rec batch.Record) Reason {
	switch why, shown := l.shownReasons[rec.ID]; {
	case rec.Final() && rec.Quarantined:
		return Reason{Cause: batch.CauseQuarantined, Remedy: batch.RemedyRequeue, State: rec.State, Kind: kindOf(rec.Error)}
	case rec.Final():
		return Reason{Cause: batch.CauseFinal, Remedy: batch.RemedyRequeue, State: rec.State, Kind: kindOf(rec.Error)}
	case shown:
		return why
	}
	return l.otherReason
}

// addReasons adds to known the reasons of each lane that has open batches on the page. If known
// has more than maxKeptLanes lanes, addReasons first clears it.
func (v *surveyView) addReasons(ctx context.Context, page []batch.Record, known map[batch.ServiceID]laneReasons) error {
	if len(known) > maxKeptLanes {
		clear(known)
	}
	var lanesToRead []batch.ServiceID
	for _, rec := range page {
		if _, is := known[rec.Service]; !is && !rec.Final() {
			known[rec.Service] = laneReasons{}
			lanesToRead = append(lanesToRead, rec.Service)
		}
	}
	for some := range slices.Chunk(lanesToRead, 100) {
		q := store.SurveyQuery{Services: some, Window: maxSampledBatches, Cap: maxCountedBatches}
		_, _, err := v.judgePage(ctx, q, func(_ time.Time, l store.LaneSurvey, items []laneItem) {
			r := laneReasons{shownReasons: make(map[batch.ID]Reason, len(items))}
			for _, it := range items {
				if r.otherReason = it.Reason; it.id != "" {
					r.shownReasons[it.id] = it.Reason
				}
			}
			known[l.Service] = r
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func countList(causes map[Reason]int) []CauseCount {
	all := make([]CauseCount, 0, len(causes))
	for r, n := range causes {
		all = append(all, CauseCount{r, n})
	}
	slices.SortFunc(all, func(a, b CauseCount) int { return compareCounts(a.Batches, b.Batches, a.Reason, b.Reason) })
	return all
}

// token returns a digest of the selection: the bulk action, the time and the batches.
func (s Selection) token() (string, error) {
	text, err := json.Marshal(struct {
		Bulk    Bulk      `json:"bulk"`
		At      time.Time `json:"at"`
		Batches []Seen    `json:"batches"`
	}{s.Bulk, s.At.UTC(), s.Batches})
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// check returns an error for a selection that was changed since its preview, or that is not valid.
func (s Selection) check() error {
	if token, err := s.token(); err != nil || token != s.Token {
		return errors.Join(err, &batch.InputError{Field: "Selection.Token", Value: batch.Excerpt(s.Token, 64), Want: "a selection as Preview returned it"})
	}
	_, err := s.Bulk.listQuery()
	return err
}

// Run carries out a bulk action: it acts upon the batches of the selection one by one, each as it
// was at the preview. A batch that has changed since then is reported and left as it is. A batch
// that matches the filter only now is not touched. The history of each batch has the act, with
// actor and reason.
//
// Run ends early when ctx is done or the store fails. It then returns the report with the error,
// and Next is the index from which another Run continues, in any process that has the selection.
// The act at Next may have been done. No process continues by itself. Run keeps nothing in the
// store: see [Bulks] for an action that another process can continue by its token alone.
func (d *Desk) Run(ctx context.Context, s Selection, by batch.By, o *RunOptions) (Report, error) {
	if o == nil {
		o = &RunOptions{}
	}
	r := Report{Token: s.Token, Selected: len(s.Batches), Next: o.From}
	err := d.runSelection(ctx, s, by, *o, &r)
	if err != nil {
		err = fmt.Errorf("bulk %s: %w", s.Bulk.Action, err)
	}
	return r, err
}

func (d *Desk) runSelection(ctx context.Context, s Selection, by batch.By, o RunOptions, r *Report) error {
	if err := by.Validate(); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if o.From < 0 || o.From > len(s.Batches) {
		return &batch.InputError{Field: "RunOptions.From", Value: fmt.Sprint(o.From), Want: "a place in the selection"}
	}
	for chunk := range slices.Chunk(s.Batches[o.From:], chunkBatches) {
		desk := d.chunkDesk()
		for _, b := range chunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := s.Bulk.actUpon(ctx, desk, b, by)
			why, stop := b.notDone(err)
			switch {
			case stop:
				return err
			case err != nil:
				r.NotDone = append(r.NotDone, why)
			default:
				r.Done++
			}
			r.Next++
		}
		if o.Progress != nil {
			o.Progress(*r)
		}
	}
	return nil
}

// chunkDesk returns a desk for the acts of one chunk. It reads the settings of each service once.
func (d *Desk) chunkDesk() acts.Desk {
	type quietAnswer struct {
		d   time.Duration
		err error
	}
	known := map[batch.ServiceID]quietAnswer{}
	desk := d.acts
	desk.Quiet = func(ctx context.Context, s batch.ServiceID) (time.Duration, error) {
		q, is := known[s]
		if !is {
			q.d, q.err = d.resendQuiet(ctx, s)
			known[s] = q
		}
		return q.d, q.err
	}
	return desk
}

// actUpon does the bulk action to one batch.
func (b Bulk) actUpon(ctx context.Context, desk acts.Desk, to Seen, by batch.By) (err error) {
	seen := batch.Record{Key: to.Key, Version: to.Version, CreatedAt: to.CreatedAt}
	switch b.Action {
	case batch.ActionCancel:
		_, err = desk.Cancel(ctx, seen, by)
	case batch.ActionRequeue:
		_, err = desk.Requeue(ctx, seen, by)
	case batch.ActionDecide:
		_, err = desk.Decide(ctx, seen, b.Ruling, by)
	default:
		_, err = desk.Acquit(ctx, seen, by)
	}
	return err
}

// notDone returns the reason why nothing was done to a batch. The result stop is true if the error
// does not depend on the batch: the next batch would fail in the same way.
func (s Seen) notDone(err error) (why NotDone, stop bool) {
	if err == nil {
		return why, false
	}
	why = NotDone{Key: s.Key, Why: err.Error(), Changed: errors.Is(err, batch.ErrMovedOn) || errors.Is(err, batch.ErrNotFound)}
	for _, own := range []error{batch.ErrNotAllowed, batch.ErrInDoubt, ErrNotRecorded, ErrDisagree} {
		if why.Changed || errors.Is(err, own) {
			return why, false
		}
	}
	return why, true
}
