package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/store"
)

// Front is the front of a lane at one moment: the batches under way, the first waiting batches,
// and which batch each of these waits for.
type Front struct {
	Service batch.ServiceID `json:"service"`
	At      time.Time       `json:"at"` // the database's clock
	// Rows are the open batches that were attempted, and the first waiting batches, in the order
	// in which claims take them. Batches that claims do not reach yet come last.
	Rows []FrontRow `json:"rows"`
	// More is the number of open batches that Rows leaves out; AtLeast is true if there may be
	// more than that.
	More    int  `json:"more,omitzero"`
	AtLeast bool `json:"at_least,omitzero"`
	// Text says in a sentence or two how the batches stand.
	Text string `json:"text"`
}

// FrontRow is one batch at the front of a lane.
type FrontRow struct {
	batch.Explanation
	Tone Tone `json:"tone"`
	// Word says in a word or two how the batch stands.
	Word string `json:"word"`
	// Blocked is the index in Rows of the batch that this batch waits for. It is -1 if the batch
	// waits for no other, or for one that is not in Rows.
	Blocked int       `json:"blocked"`
	Created time.Time `json:"created"`
}

// Limits of a [Front].
const (
	maxFront = 100
	// frontWindow is the least number of waiting batches that are read, so that the answer uses as
	// many batches as a claim usually reads.
	frontWindow = 50
)

// Front returns the front of a lane: at most limit batches that were attempted and limit that
// wait, where limit is at most 100. Rows is empty for a lane without open batches. It needs a
// store with [store.CanSurvey].
func (d *Desk) Front(ctx context.Context, service batch.ServiceID, limit int) (Front, error) {
	limit = min(max(limit, 1), maxFront)
	q := store.SurveyQuery{Services: []batch.ServiceID{service}, Window: max(limit, frontWindow)}.Bounded()
	f := Front{Service: service, Rows: []FrontRow{}, Text: "No batch of the lane is open."}
	v := d.newView()
	_, _, err := v.judgePage(ctx, q, func(at time.Time, l store.LaneSurvey, items []laneItem) { f = newFront(at, l, items, q, limit) })
	if err != nil {
		return Front{}, fmt.Errorf("front of %s: %w", batch.Only(service), err)
	}
	return f, nil
}

// newFront makes the Front of a lane from its explained batches.
func newFront(at time.Time, l store.LaneSurvey, items []laneItem, q store.SurveyQuery, n int) Front {
	f := Front{Service: l.Service, At: at, Rows: []FrontRow{}}
	var places []int
	open, tried, waits := l.Waiting, 0, 0
	for i := range l.Rows { // items has the same order as l.Rows; items for batches that were not read come last
		r, it := &l.Rows[i], &items[i]
		if r.Row.Attempted() {
			open++
			tried++
		} else {
			waits++
		}
		if r.Row.Attempted() && tried > n || waits > n {
			continue
		}
		row := FrontRow{Explanation: it.explanation, Created: r.Created, Blocked: -1}
		if row.ID == "" { // the survey did not explain this batch itself
			row.Explanation = batch.Explanation{
				Key: r.Key, Version: r.Row.Version, At: at, State: r.Row.State, Attempts: r.Row.Attempt,
				Cause: it.Cause, Remedy: it.Remedy, Blocker: it.blocker.Key,
			}
		}
		if row.Text = it.Why; it.Cause != CauseUnknown {
			row.Text = explain.Sentence(row.Explanation)
		}
		row.Word, row.Tone = standingText(row.Explanation)
		where := len(f.Rows)
		if it.place >= 0 {
			where, _ = slices.BinarySearchFunc(places, it.place, func(at, want int) int {
				if at < 0 { // -1: claims do not reach that batch
					return 1
				}
				return cmp.Compare(at, want)
			})
		}
		f.Rows, places = slices.Insert(f.Rows, where, row), slices.Insert(places, where, it.place)
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		if r.Remedy == batch.RemedyBlocker {
			r.Blocked = slices.IndexFunc(f.Rows, func(b FrontRow) bool { return b.Key == r.Blocker })
		}
	}
	f.More, f.AtLeast = open-len(f.Rows), l.Waiting >= q.Cap
	f.Text = f.sentence()
	return f
}

// standingText says in a word or two how a batch stands.
func standingText(e batch.Explanation) (string, Tone) {
	switch e.Cause {
	case batch.CauseReady:
		return "leaves next", TonePlain
	case batch.CausePaused:
		return "paused", TonePerson
	case batch.CauseHalted:
		return "halted", TonePerson
	case batch.CauseDelayed:
		return "waits for its time", ToneWait
	case batch.CauseBehind, batch.CauseInFlight:
		return "waits", TonePlain
	case batch.CauseHeld:
		return "held by the strategy", TonePerson
	case batch.CauseUnserved:
		return "not served", TonePerson
	case batch.CauseClaimed:
		return "being sent", ToneGood
	case batch.CauseInDoubt:
		return "in doubt", ToneDoubt
	case batch.CauseDecision:
		return "needs a person", TonePerson
	case batch.CauseLedger:
		return "at the ledger", ToneGood
	case batch.CauseSettling:
		return "settling", ToneBad
	}
	return "not known", ToneWait
}

// sentence describes the front in words: how many batches stand in which way, and which batch most
// of them wait for.
func (f Front) sentence() string {
	var order []string
	by, waits := map[string]int{}, map[batch.Key]int{}
	for _, r := range f.Rows {
		if by[r.Word]++; by[r.Word] == 1 {
			order = append(order, r.Word)
		}
		if r.Remedy == batch.RemedyBlocker {
			waits[r.Blocker]++
		}
	}
	parts := make([]string, len(order))
	for i, word := range order {
		n := by[word]
		if verb, rest, _ := strings.Cut(word, " "); n > 1 && (verb == "waits" || verb == "needs" || verb == "leaves") {
			word = strings.TrimSpace(strings.TrimSuffix(verb, "s") + " " + rest)
		}
		parts[i] = fmt.Sprintf("%d %s", n, word)
	}
	s := "From the front: " + strings.Join(parts, ", ")
	switch {
	case f.AtLeast:
		s += fmt.Sprintf("; at least %d more stand behind", f.More)
	case f.More > 0:
		s += fmt.Sprintf("; %d more stand behind", f.More)
	}
	s += "."
	most := batch.Key{}
	for _, r := range f.Rows { // iterates over rows, not over the map, so that the text is always the same
		if r.Remedy == batch.RemedyBlocker && waits[r.Blocker] > waits[most] {
			most = r.Blocker
		}
	}
	if n := waits[most]; n > 0 {
		s += fmt.Sprintf(" %d of these %s for batch %s.", n, map[bool]string{true: "waits", false: "wait"}[n == 1], most.ID)
	}
	return s
}
