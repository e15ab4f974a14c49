package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// stepLine is a step of a batch's timeline on its page.
type stepLine struct {
	operator.Step
	Mark  stateMark
	At    shownTime
	Later string // time since the step before
	Now   bool
}

// stepLines returns the lines of a timeline.
func stepLines(now time.Time, list []operator.Step) []stepLine {
	lines := make([]stepLine, len(list))
	var previous time.Time
	for i, s := range list {
		l := stepLine{Step: s, Mark: stepMark(s), At: dueStamp(now, s.At), Now: s.Kind == operator.StepCalled}
		if s.At.Sub(previous) >= time.Second && !previous.IsZero() && !l.Now {
			l.Later = ageText(s.At.Sub(previous)) + " later"
		}
		if !s.At.IsZero() {
			previous = s.At
		}
		lines[i] = l
	}
	return lines
}

func stepMark(s operator.Step) stateMark {
	m := stateMark{Tone: toneWaiting, Icon: "clock", Word: s.Title}
	switch s.Tone {
	case operator.ToneGood:
		m.Tone, m.Icon = toneOK, "ok"
	case operator.ToneWait:
		m.Tone, m.Icon = toneWarning, "warn"
	case operator.ToneDoubt:
		m.Tone, m.Icon = toneWarning, "doubt"
	case operator.ToneBad:
		m.Tone, m.Icon = toneBad, "bad"
	case operator.TonePerson:
		m.Tone, m.Icon = toneRunning, "person"
		if s.Kind == operator.StepCalled {
			m.Tone = toneBad
		}
	case operator.TonePlain:
		if s.Kind == operator.StepTaken || s.Kind == operator.StepAnswered {
			m.Tone, m.Icon = toneRunning, "send"
		}
	}
	return m
}

// neighbours returns the batches directly before and after a batch in its lane, including final
// ones; nil if there is none, or if the store has no lists.
func (v *visit) neighbours(ctx context.Context, r batch.Record) (before, after *batch.Record, err error) {
	q := store.ListQuery{Service: &r.Service, Limit: 1, After: store.CursorAfter(r.CreatedAt, string(r.ID))}
	for _, to := range []struct {
		newestFirst bool
		rec         **batch.Record
	}{{true, &before}, {false, &after}} {
		q.NewestFirst = to.newestFirst
		found, _, err := v.desk.List(ctx, q)
		if errors.Is(err, store.ErrUnsupported) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if len(found) > 0 {
			*to.rec = &found[0]
		}
	}
	return before, after, nil
}

// sortedTags returns tags sorted by name.
func sortedTags(t batch.Tags) []batch.Tag {
	list := make([]batch.Tag, 0, len(t))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, batch.Tag{Name: name, Value: t[name]})
	}
	return list
}
