package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/operator"
)

// bandAge is how old the survey may be that the band rests on, on pages that make
// none themselves.
const bandAge = 2 * time.Minute

// band is the first line of each page, short enough to be read from across the room.
type band struct {
	mark
	Why string
}

// band says how things are; nil where that is not known.
func (v *visit) band(ctx context.Context, a *answer) *band {
	if a.status >= http.StatusInternalServerError {
		return nil // the page says that the store fails
	}
	o, _, err := v.overview.within(ctx, bandAge)
	if err != nil {
		return nil
	}
	s := bandOf(o)
	return &s
}

// bandOf says the worst that is wrong.
func bandOf(o overview) band {
	if o.State == operator.StatePart {
		return band{mark{toneWarn, "warn", "Not everything was looked at"}, "the time was over before all lanes were reached"}
	}
	marks := map[operator.State]mark{
		operator.StateStopped: {toneBad, "down", "No instance runs"},
		operator.StateLedger:  {toneBad, "down", "Nothing is posted"},
		operator.StatePerson:  {toneWarn, "person", "Needs a person"},
		operator.StateWaits:   {toneWarn, "warn", "Waits, and goes on by itself"},
	}
	if m, is := marks[o.State]; is {
		why, more := o.Incidents[0].Text, ""
		if strings.HasPrefix(why, m.Word) { // the sentence says the state, too
			m.Word, why = why, ""
		}
		if n := len(o.Incidents) - 1; n > 0 {
			more = fmt.Sprintf("And %d more.", n)
		}
		return band{m, strings.TrimSpace(why + " " + more)}
	}
	s, n := band{mark{toneOK, "ok", "All well"}, "no batch is open"}, 0
	for _, m := range o.Itself {
		n += m.Batches
	}
	if n > 0 {
		s.Why = fmt.Sprintf("%d %s under way", n, plural(n, "batch", "batches"))
	}
	return s
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
