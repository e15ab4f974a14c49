package console

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/operator"
)

// templateFuncs returns the functions of the templates.
func templateFuncs() template.FuncMap {
	return template.FuncMap{
		"past": pastStamp, "due": dueStamp, "exact": exactStamp, "age": ageText, "service": serviceText, "cause": causeTitle, "failed": errorText, "least": countText,
		"pill": stateMarkOf, "errors": hasErrors, "held": heldMarks, "incidentIcon": incidentIcon, "closed": incident.LedgerClosed, "notPosted": operator.NotPosted, "mark": func(tone, icon, word string) stateMark { return stateMark{tone, icon, word} },
		"short": shortText, "tale": explanationText, "bulkPart": parseBulkReason, "actRows": operator.ActRows,
		"batchLink": batchLink, "scopeLink": scopeLink,
		"rows": func(now time.Time, caption string, list any) timedList {
			return timedList{Now: now, Caption: caption, List: list}
		},
		"shown": func(r timedList) timedList { r.Shown = true; return r }, "orderColumns": orderColumns,
		"words": func(name any) string { return strings.ReplaceAll(fmt.Sprint(name), "_", " ") },
	}
}

// timedList holds a list, or a single value, for a template that shows times.
type timedList struct {
	Now     time.Time
	Caption string
	List    any
	Shown   bool // the caption is visible, not only for screen readers
}

// shownTime is a time in words: relative to now, and exact.
type shownTime struct {
	Machine, Relative, Exact string // all "" if the time is zero
}

func exactStamp(t time.Time) shownTime {
	if t.IsZero() {
		return shownTime{}
	}
	t = t.UTC()
	return shownTime{Machine: t.Format(time.RFC3339Nano), Exact: t.Format("2006-01-02 15:04:05") + " UTC"}
}

// pastStamp shows when something happened. If the clock has stepped back since, it shows now.
func pastStamp(now, t time.Time) shownTime {
	s := exactStamp(t)
	if !t.IsZero() {
		s.Relative = ageText(now.Sub(t)) + " ago"
	}
	return s
}

// dueStamp shows when something is due.
func dueStamp(now, t time.Time) shownTime {
	if !t.After(now) {
		return pastStamp(now, t)
	}
	s := exactStamp(t)
	s.Relative = "in " + ageText(t.Sub(now))
	return s
}

// ageText shows a duration in at most two units, and a negative one as 0.
func ageText(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// serviceText shows the name of a lane. "" is a valid name.
func serviceText(s batch.ServiceID) string {
	if s == "" {
		return `""`
	}
	return string(s)
}

// maxID is the length up to which an id is shown whole in a text. Ledgers name batches by 128
// digits.
const (
	maxID   = 24
	shortID = 16
)

// shortText shows an id or its beginning. The link and the page of the batch show all of it.
func shortText(id batch.ID) string {
	if len(id) <= maxID {
		return string(id)
	}
	return batch.Excerpt(string(id), shortID) + "…"
}

// explanationText returns the text of an explanation with short ids.
func explanationText(e batch.Explanation) string {
	text := e.Text
	for _, id := range []batch.ID{e.Blocker.ID, e.ID, e.Control.HaltedBy} {
		if len(id) > maxID {
			text = strings.ReplaceAll(text, string(id), shortText(id))
		}
	}
	return text
}

// bulkReason holds the two parts of the reason of an act: the bulk action's token, and the
// person's reason.
type bulkReason struct{ Token, Reason string }

// parseBulkReason reads the reason of an act; nil if the act was done alone.
func parseBulkReason(reason string) *bulkReason {
	if token, given, is := operator.BulkPart(reason); is {
		return &bulkReason{token, given}
	}
	return nil
}

// countText shows a number; more is true if the real number may be larger.
func countText(n int, more bool) string {
	if more {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// errorText shows an error beside a state that already says that the batch was rejected or is
// invalid.
func errorText(e *batch.SubmissionError) string {
	switch {
	case e == nil:
		return ""
	case (e.Kind == batch.KindRejected || e.Kind == batch.KindInvalid) && e.Message != "":
		return e.Message
	}
	return e.Error()
}

// hasErrors reports whether one of the batches has an error. If none has, the column is left out.
func hasErrors(list any) bool {
	all, _ := list.([]batch.Record)
	return slices.ContainsFunc(all, func(r batch.Record) bool { return r.Error != nil })
}

// columns says which columns of a list of orders have values; the others are left out.
type columns struct{ Key, Batch, Error bool }

func orderColumns(list any) (has columns) {
	all, _ := list.([]order.Record)
	for _, o := range all {
		has.Key, has.Batch, has.Error = has.Key || o.Key != "", has.Batch || o.Batch != "" || o.Batches > 0, has.Error || o.Error != nil
	}
	return has
}

// causeTitle returns the title of a cause.
func causeTitle(c batch.Cause) string {
	switch c {
	case batch.CauseReady:
		return "Ready to leave"
	case batch.CausePaused:
		return "Paused by a person"
	case batch.CauseHalted:
		return "Its lane is halted"
	case batch.CauseDelayed:
		return "Waits for its time, after a failure or a requeue"
	case batch.CauseBehind:
		return "Waits for an earlier batch"
	case batch.CauseInFlight:
		return "The ledger takes no more of the lane at once"
	case batch.CauseHeld:
		return "The strategy does not take it"
	case batch.CauseUnserved:
		return "The ledger does not serve its service"
	case batch.CauseClaimed:
		return "An instance is sending it"
	case batch.CauseInDoubt:
		return "The outcome of an attempt is not known yet"
	case batch.CauseDecision:
		return "A person has to decide"
	case batch.CauseLedger:
		return "The ledger has it and has not decided"
	case batch.CauseSettling:
		return "The ledger decided against it, and may still commit it"
	case batch.CauseFinal:
		return "Final"
	case batch.CauseQuarantined:
		return "Final, and set aside"
	case operator.CauseUnknown:
		return "Not known: settings are not on record"
	}
	return string(c)
}

// pageLink returns a relative address; pairs are names and values of its query.
func pageLink(page string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

func batchLink(k batch.Key) string {
	return pageLink("batch", "service", string(k.Service), "id", string(k.ID))
}

func scopeLink(s batch.Scope) string {
	if s.All {
		return pageLink("lane", "all", "1")
	}
	return pageLink("lane", "service", string(s.Service))
}

// nextPageLink returns the address of a list's next page: the present address with another
// position.
func nextPageLink(now url.Values, page, name, place string) string {
	q := maps.Clone(now)
	q.Set(name, place)
	return page + "?" + q.Encode()
}
