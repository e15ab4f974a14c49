package operator

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// surveyView judges lanes page by page, and caches the records of ledgers that it has read.
type surveyView struct {
	desk        *Desk
	surveyTime  time.Time
	texts       map[string]string        // the record of each ledger, as text
	rules       map[string]claimRules    // the rules of each ledger whose record holds for all its services
	laterLanes  []batch.ServiceID        // lanes that judgeSamples reads again with more batches
	laterIsFull bool                     // true if laterLanes takes no more lanes
	finalStates map[batch.Key]finalState // the batches that halted lanes
	// shapes holds the items of judged lanes of the present page, by [laneShape].
	shapes     map[laneShape][]laneItem
	itemBuffer []laneItem // buffer for the items of lanes of a known shape
	// unserved maps each lane that no live instance serves to the reason; nil if the instances
	// were not read.
	unserved map[batch.ServiceID]string
}

// finalState is how a batch that halted its lane ended.
type finalState struct {
	state batch.State
	kind  batch.ErrorKind
}

func (d *Desk) newView() *surveyView {
	return &surveyView{desk: d, texts: map[string]string{}, rules: map[string]claimRules{}, finalStates: map[batch.Key]finalState{}}
}

// judgePage judges the lanes of a page. It returns the number of lanes on the page, and the last
// lane.
func (v *surveyView) judgePage(ctx context.Context, q store.SurveyQuery, take func(time.Time, store.LaneSurvey, []laneItem)) (n int, last batch.ServiceID, err error) {
	s, err := v.desk.store.Survey(ctx, q)
	if err != nil {
		return 0, "", err
	}
	v.surveyTime, v.shapes = s.At, map[laneShape][]laneItem{}
	if err := v.readHalters(ctx, s.Lanes); err != nil {
		return 0, "", err
	}
	if v.unserved == nil && len(s.Lanes) > 0 {
		counts, _, err := v.desk.readCounts(ctx)
		if err != nil {
			return 0, "", err
		}
		v.unserved = unservedLanes(counts.Instances)
	}
	for _, l := range s.Lanes {
		last = l.Service
		if len(l.Rows) == 0 {
			continue // the lane has no open batch any more
		}
		u, err := v.rulesOf(ctx, l)
		if err != nil {
			return 0, "", err
		}
		if q.Services == nil && countsFootprints(u, l) && !isClosed(s, l) && !v.laterIsFull {
			v.laterLanes = append(v.laterLanes, l.Service)
			v.laterIsFull = len(v.laterLanes) == maxSampledLanes
			continue
		}
		items := v.items(s, l, u, q.Bounded())
		if why, is := v.unserved[l.Service]; is {
			items = unservedItems(items, why)
		}
		take(s.At, l, items)
	}
	return len(s.Lanes), last, nil
}

// countsFootprints reports whether footprints decide anything in a lane: more than one batch may
// leave at once, or more than one was attempted.
func countsFootprints(u claimRules, l store.LaneSurvey) bool {
	tried, again := 0, false
	for i := range l.Rows {
		if l.Rows[i].Row.Attempted() {
			tried++
			again = again || l.Rows[i].Row.State.Claimable() // a brief survey shows no prepared bytes
		}
	}
	return tried > 1 || (u.query.Window > 1 || again && u.isNumbered(l.Service)) && tried+l.Waiting > 1
}

// judgeSamples judges the lanes in v.later, with more of their batches.
func (v *surveyView) judgeSamples(ctx context.Context, take func(time.Time, store.LaneSurvey, []laneItem)) error {
	for some := range slices.Chunk(v.laterLanes, 100) {
		if _, _, err := v.judgePage(ctx, store.SurveyQuery{Services: some, Window: maxSampledBatches, Cap: maxCountedBatches}, take); err != nil {
			return err
		}
	}
	return nil
}

// rulesOf returns the rules by which batches of the lane are claimed.
func (v *surveyView) rulesOf(ctx context.Context, l store.LaneSurvey) (claimRules, error) {
	if u, known := v.rules[l.Ledger]; known {
		return u, nil
	}
	r, err := v.desk.newServiceRecord(ctx, l.Service, l.Ledger, v.texts)
	if err != nil {
		return claimRules{}, err
	}
	u, err := r.claimRules()
	if err == nil && r.Uniform() {
		v.rules[l.Ledger] = u
	}
	return u, err
}

// readHalters reads the batches that halted the lanes of a page.
func (v *surveyView) readHalters(ctx context.Context, lanes []store.LaneSurvey) error {
	var keysToRead []batch.Key
	for _, l := range lanes {
		if l.Control.HaltedBy != "" {
			keysToRead = append(keysToRead, batch.Key{Service: l.Service, ID: l.Control.HaltedBy})
		}
	}
	if len(keysToRead) == 0 {
		return nil
	}
	recs, _, err := v.desk.store.Finals(ctx, keysToRead)
	if errors.Is(err, store.ErrUnsupported) {
		return nil
	}
	for _, rec := range recs {
		v.finalStates[rec.Key] = finalState{rec.State, kindOf(rec.Error)}
	}
	return err
}

func kindOf(err *batch.SubmissionError) batch.ErrorKind {
	if err == nil {
		return ""
	}
	return err.Kind
}

// laneItems returns the open batches of a lane with their reasons.
func (v *surveyView) laneItems(s store.Survey, l store.LaneSurvey, u claimRules, q store.SurveyQuery) []laneItem {
	for i := range l.Rows { // a brief survey has no ids, and an explanation names batches by their ids
		if r := &l.Rows[i]; r.Key.ID == "" {
			r.Key.ID = batch.ID(strconv.FormatInt(r.Ref.Row, 10))
		}
	}
	attempted := slices.IndexFunc(l.Rows, func(r store.LaneRow) bool { return !r.Row.Attempted() })
	if attempted < 0 {
		attempted = len(l.Rows)
	}
	waiting, window := len(l.Rows)-attempted, u.query.Window
	partial := waiting < min(l.Waiting, window) // a claim would read more waiting batches
	if partial {
		window = waiting
	}
	sampled := (partial || q.Brief && countsFootprints(u, l)) && !isClosed(s, l)
	shown := l.Rows[:min(len(l.Rows), attempted+window)]
	u.query.Window = window
	j := laneJudge{
		view: v, rules: u, rows: l.Rows, lane: u.query.InOrder(l.Service, shown),
		look: store.Look{At: s.At, Lane: shown, Everything: s.Everything, Service: l.Control},
	}
	items := make([]laneItem, 0, len(l.Rows)+1)
	again := 0
	for i := range l.Rows {
		r := &l.Rows[i]
		if i < attempted && r.Row.State.Claimable() {
			again++
		}
		var it laneItem
		if i < attempted && again > maxSampledBatches && r.Row.State.Claimable() { // each such explanation reads the whole lane
			it = j.itemOfRest(r.Created, 1)
			it.isSampled = true
		} else {
			it = j.item(r)
			it.isSampled = sampled && r.Row.State.Claimable()
		}
		it.place = slices.IndexFunc(j.lane, func(o store.LaneRow) bool { return o.Key == r.Key })
		items = append(items, it)
	}
	if rest := l.Waiting - waiting; rest > 0 {
		front := items[len(items)-1] // the last waiting row, since waiting rows come last
		it := laneItem{count: rest, created: front.created, Reason: front.Reason}
		if !isClosed(s, l) {
			it = j.itemOfRest(front.created, rest)
			it.isSampled = sampled
		}
		it.atLeast = l.Waiting == q.Cap
		items = append(items, it)
	}
	return items
}

// isClosed reports whether a pause or a halt stops all batches of the lane.
func isClosed(s store.Survey, l store.LaneSurvey) bool {
	return s.Everything.Closed() || l.Control.Closed()
}
