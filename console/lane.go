package console

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

// laneBody is the data of the page of one lane, or of everything.
type laneBody struct {
	Control  batch.Control
	Front    frontPicture
	Settings operator.Settings
	Offers   []actOffer
	History  []batch.Act
	Done     *batch.Act
}

// lanePage shows one lane, or everything.
func lanePage(ctx context.Context, v *visit) (*answer, error) {
	name, err := parseService(v.query.Get("service"))
	if err != nil {
		return nil, err
	}
	scope := batch.Only(name)
	if v.query.Get("all") != "" {
		scope = batch.Everything()
	}
	var b laneBody
	if b.Control, err = v.desk.Control(ctx, scope); err != nil {
		return nil, err
	}
	if !scope.All {
		f, err := v.desk.Front(ctx, scope.Service, maxFrontRows)
		if err != nil {
			return nil, err
		}
		b.Front = drawFront(f)
		if b.Settings, err = v.desk.Settings(ctx, scope.Service); err != nil {
			return nil, err
		}
	}
	if b.History, err = v.desk.LaneHistory(ctx, scope); err != nil {
		return nil, err
	}
	b.Done = actDone(v.query.Get("done"), b.History)
	b.Offers = v.laneOffers(b.Control, b.Settings)
	if !scope.All {
		if err := v.askUnknown(ctx, scope.Service, b.Offers); err != nil {
			return nil, err
		}
	}
	title := "Everything"
	if !scope.All {
		title = "Lane " + serviceText(scope.Service)
	}
	return &answer{page: "lane", title: title, body: b}, nil
}

// actDone returns the act that the form has just done, if the history confirms it: the address
// alone proves nothing, since anybody may have written it.
func actDone(did string, history []batch.Act) *batch.Act {
	if n := len(history); n > 0 && string(history[n-1].Action) == did {
		return &history[n-1]
	}
	return nil
}
