package console

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// stateAge is how old the look may be that the state in the header rests on, on pages that do not look themselves.
const stateAge = 2 * time.Minute

// state is what each page says first, in words that are read from across the room.
type state struct {
	mark
	Why string
}

// state says how things are; nil where that is not known.
func (v *visit) state(ctx context.Context, a *answer) *state {
	if a.status >= http.StatusInternalServerError {
		return nil // the page says that the store fails
	}
	o, _, err := v.overview.within(ctx, stateAge)
	if err != nil {
		return nil
	}
	s := stateOf(o)
	return &s
}

func stateOf(o overview) state {
	live, closed, open := 0, 0, 0
	for _, i := range o.stats.Instances {
		if i.Live {
			if live++; i.Paused {
				closed++
			}
		}
	}
	for _, n := range o.stats.Open {
		open += n
	}
	person, batches, itself := 0, 0, 0
	for _, g := range o.causes.Groups {
		if grouped(g).ByItself {
			itself += g.Batches
		} else {
			person++
			batches += g.Batches
		}
	}
	switch {
	case o.counted && live == 0 && open > 0:
		return state{mark{toneBad, "down", "No instance runs"}, fmt.Sprintf("%d open %s, and nothing moves", open, plural(open, "batch", "batches"))}
	case closed > 0 && closed == live:
		return state{mark{toneBad, "down", "Nothing is posted"}, "the ledger is down, busy, or refuses"}
	case person > 0:
		return state{mark{toneWarn, "person", "Needs a person"}, fmt.Sprintf("%d %s, %d %s", person, plural(person, "cause", "causes"), batches, plural(batches, "batch", "batches"))}
	case itself > 0:
		return state{mark{toneOK, "ok", "All well"}, fmt.Sprintf("%d %s under way", itself, plural(itself, "batch", "batches"))}
	}
	return state{mark{toneOK, "ok", "All well"}, "no batch is open"}
}
