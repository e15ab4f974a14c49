package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/operator"
)

// maxTopLineAge is how old a kept survey may be for the top line of pages that make no survey
// themselves.
const maxTopLineAge = 2 * time.Minute

// topLine is the first line of each page, large enough to be read from a distance.
type topLine struct {
	stateMark
	Why string
}

// readTopLine returns the line about the state of the store; nil if the state is not known.
func (v *visit) readTopLine(ctx context.Context, a *answer) *topLine {
	if a.status >= http.StatusInternalServerError {
		return nil // the page says that the store fails
	}
	o, _, err := v.overview.getWithin(ctx, maxTopLineAge)
	if err != nil {
		return nil
	}
	s := topLineOf(o)
	return &s
}

// topLineOf returns the line about the worst incident.
func topLineOf(o overview) topLine {
	if o.State == operator.StatePart {
		return topLine{stateMark{toneWarning, "warn", "Not everything was looked at"}, "the time was over before all lanes were reached"}
	}
	marks := map[operator.State]stateMark{
		operator.StateStopped: {toneBad, "down", "No instance runs"},
		operator.StateLedger:  {toneBad, "down", "Nothing is posted"},
		operator.StatePerson:  {toneWarning, "person", "Needs a person"},
		operator.StateWaits:   {toneWarning, "warn", "Waits, and goes on by itself"},
	}
	if m, is := marks[o.State]; is {
		why, more := o.Incidents[0].Text, ""
		if strings.HasPrefix(why, m.Word) { // the sentence already names the state
			m.Word, why = why, ""
		}
		if n := len(o.Incidents) - 1; n > 0 {
			more = fmt.Sprintf("And %d more.", n)
		}
		return topLine{m, strings.TrimSpace(why + " " + more)}
	}
	s, n := topLine{stateMark{toneOK, "ok", "All well"}, "no batch is open"}, 0
	for _, m := range o.Moving {
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
