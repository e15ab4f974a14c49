package console

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// Bounds of the page of a lane.
const (
	laneShown     = 50 // batches under way, and as many waiting batches
	laneExplained = 5  // waiting batches
)

// laneBody is one lane, or everything.
type laneBody struct {
	Control batch.Control
	Counts  []stateCount // of the batches that were attempted
	Waiting int
	AtLeast bool
	// UnderWay are the batches that were attempted, Queue the first waiting batches.
	UnderWay, Queue []batch.Record
	MoreUnderWay    int
	Why             []why
	Settings        operator.Relied
	Offers          []offer
	History         []batch.Act
	Done            *batch.Act
}

// why says in words why a batch does not move.
type why struct {
	batch.Key
	Text    string
	Cause   batch.Cause
	Blocker batch.Key
	Address string
}

// lane shows one lane, or everything.
func lane(ctx context.Context, v *visit) (*answer, error) {
	name, err := named(v.q.Get("service"))
	if err != nil {
		return nil, err
	}
	scope := batch.Only(name)
	if v.q.Get("all") != "" {
		scope = batch.Everything()
	}
	var b laneBody
	if b.Control, err = v.desk.Control(ctx, scope); err != nil {
		return nil, err
	}
	if !scope.All {
		if err := queue(ctx, v, scope.Service, &b); err != nil {
			return nil, err
		}
		if b.Settings, err = v.desk.Relied(ctx, scope.Service); err != nil {
			return nil, err
		}
	}
	if b.History, err = v.desk.LaneHistory(ctx, scope); err != nil {
		return nil, err
	}
	b.Done = done(v.q.Get("done"), b.History)
	b.Offers = v.laneOffers(b.Control, b.Settings)
	title := "Everything"
	if !scope.All {
		title = "Lane " + service(scope.Service)
	}
	return &answer{page: "lane", title: title, body: b}, nil
}

// queue adds the open batches of a lane, from its front.
func queue(ctx context.Context, v *visit, service batch.ServiceID, b *laneBody) error {
	q := store.SurveyQuery{Services: []batch.ServiceID{service}, Window: laneShown}
	s, err := v.store.Survey(ctx, q)
	if err != nil || len(s.Lanes) == 0 {
		return err
	}
	l := s.Lanes[0]
	by := map[batch.State]int{}
	var first []batch.Key
	for _, r := range l.Rows {
		rec := r.Row.Record(r.Key)
		rec.CreatedAt = r.Created
		if rec.State.Claimable() && len(first) < laneExplained {
			first = append(first, rec.Key)
		}
		if !r.Row.Attempted() {
			b.Queue = append(b.Queue, rec)
			continue
		}
		by[rec.State]++
		if len(b.UnderWay) < laneShown {
			b.UnderWay = append(b.UnderWay, rec)
		} else {
			b.MoreUnderWay++
		}
	}
	b.Counts, b.Waiting, b.AtLeast = counted(by), l.Waiting, l.Waiting >= q.Bounded().Cap
	for _, key := range first {
		w, err := explain(ctx, v.desk, key)
		if errors.Is(err, batch.ErrNotFound) {
			continue // retention was quicker
		}
		if err != nil {
			return err
		}
		b.Why = append(b.Why, w)
	}
	return nil
}

// explain explains a batch; where the settings are not known, it says that.
func explain(ctx context.Context, desk *operator.Desk, key batch.Key) (why, error) {
	e, err := desk.Explain(ctx, key)
	if s, is := errors.AsType[*operator.SettingsError](err); is {
		return why{Key: key, Cause: operator.CauseUnknown, Text: settings(s)}, nil
	}
	return why{Key: key, Text: tale(e), Cause: e.Cause, Blocker: e.Blocker, Address: e.Address}, err
}

// done returns the act that a form has just led to, from the history: an address alone proves
// nothing.
func done(did string, history []batch.Act) *batch.Act {
	if n := len(history); n > 0 && string(history[n-1].Action) == did {
		return &history[n-1]
	}
	return nil
}
