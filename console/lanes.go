package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of the list of lanes.
const (
	maxLanes       = 10_000 // most lanes that are read
	lanesPageRows  = 1000   // lanes in one query of the store
	lanesTimeLimit = 5 * time.Second
)

// lanesBody lists lanes.
type lanesBody struct {
	Views []formChoice
	Sorts []laneColumn
	Kept  []formField // fields of the address that the form keeps
	Name  string      // the listed lanes have this text in their names
	State string
	Held  bool // only lanes with a pause, a halt or a policy are listed
	Rows  []laneRow
	Pages pageLinks
	// Incomplete is true if not all lanes were read: Looked is how many were.
	Incomplete bool
	Looked     int
}

type laneRow struct {
	Service   batch.ServiceID
	Oldest    time.Time
	Waiting   int
	AtLeast   bool
	Attempted []stateCount
	Control   batch.Control
}

func (r laneRow) attempted() (n int) {
	for _, s := range r.Attempted {
		n += s.N
	}
	return n
}

func (r laneRow) hasState(s batch.State) bool {
	return slices.ContainsFunc(r.Attempted, func(c stateCount) bool { return c.State == s })
}

// laneView is one list of lanes, with its title and the condition that selects a lane for it.
type laneView struct {
	name, title string
	includes    func(laneRow) bool
}

// link returns the view's address.
func (l laneView) link() string {
	if l.name == "" {
		return "lanes"
	}
	return pageLink("lanes", "state", l.name)
}

var laneViews = []laneView{
	{"", "All open", func(laneRow) bool { return true }},
	{"doubt", "In doubt", func(r laneRow) bool { return r.hasState(batch.Unknown) || r.hasState(batch.Submitting) }},
	{"underway", "Under way", func(r laneRow) bool { return len(r.Attempted) > 0 }},
	{"paused", "Paused", func(r laneRow) bool { return !r.Control.PausedAt.IsZero() }},
	{"halted", "Halted", func(r laneRow) bool { return !r.Control.HaltedAt.IsZero() }},
}

// laneSort is an order of lanes, by a column.
type laneSort struct {
	name, title string
	isNumber    bool
	ariaSort    string // as the attribute aria-sort wants it
	compare     func(a, b laneRow) int
}

var laneSorts = []laneSort{
	{"name", "Lane", false, "ascending", func(laneRow, laneRow) int { return 0 }},
	{"age", "Oldest", true, "descending", func(a, b laneRow) int { return a.Oldest.Compare(b.Oldest) }},
	{"depth", "Waiting", true, "descending", func(a, b laneRow) int { return b.Waiting - a.Waiting }},
	{"attempted", "Attempted", false, "descending", func(a, b laneRow) int { return b.attempted() - a.attempted() }},
	{"state", "Held", false, "descending", func(a, b laneRow) int { return closedRank(a.Control) - closedRank(b.Control) }},
}

// laneColumn is the head of a column, with the address of the list sorted by it.
type laneColumn struct {
	formChoice
	Number bool
	Sort   string
}

// allLanes are the lanes with open batches, by name.
type allLanes struct {
	rows       []laneRow
	incomplete bool
}

// readLanes reads the front of each lane.
func (c *Console) readLanes(ctx context.Context) (all allLanes, err error) {
	begin := time.Now()
	q := store.SurveyQuery{Start: true, Limit: lanesPageRows}
	for {
		s, err := c.store.Survey(ctx, q)
		if err != nil {
			return all, err
		}
		for _, l := range s.Lanes {
			if len(l.Rows) == 0 {
				continue // the lane has no open batch any more
			}
			row := laneRow{Service: l.Service, Waiting: l.Waiting, AtLeast: l.Waiting >= q.Bounded().Cap, Control: l.Control}
			by := map[batch.State]int{}
			for _, r := range l.Rows {
				if row.Oldest.IsZero() || r.Created.Before(row.Oldest) {
					row.Oldest = r.Created
				}
				if r.Row.Attempted() {
					by[r.Row.State]++
				}
			}
			row.Attempted = stateCounts(by)
			all.rows = append(all.rows, row)
		}
		if len(s.Lanes) < q.Limit {
			return all, nil
		}
		if q.After, q.Start = s.Lanes[len(s.Lanes)-1].Service, false; len(all.rows) >= maxLanes || time.Since(begin) > lanesTimeLimit {
			all.incomplete = true
			return all, nil
		}
	}
}

// lanesPage lists the lanes with open batches, or the held lanes.
func lanesPage(ctx context.Context, v *visit) (*answer, error) {
	b := lanesBody{Held: v.query.Get("held") != "", State: v.query.Get("state"), Name: v.query.Get("name"), Pages: pageLinks{Page: "lanes"}}
	for _, view := range laneViews {
		b.Views = append(b.Views, formChoice{Value: view.link(), Title: view.title, On: !b.Held && b.State == view.name})
	}
	b.Views = append(b.Views, formChoice{Value: "lanes?held=1", Title: "Held, or with a policy", On: b.Held})
	if b.Held {
		return heldLanesPage(ctx, v, b)
	}
	from, err := parsePlace(v.query.Get("from"))
	if err != nil {
		return nil, err
	}
	view := slices.IndexFunc(laneViews, func(l laneView) bool { return l.name == b.State })
	by := slices.IndexFunc(laneSorts, func(l laneSort) bool { return l.name == cmp.Or(v.query.Get("sort"), "age") })
	if view < 0 || by < 0 {
		return nil, &batch.InputError{Field: "state or sort", Value: batch.Excerpt(b.State+" "+v.query.Get("sort"), 64), Want: "a word that the page offers"}
	}
	for i, s := range laneSorts {
		q := url.Values{"sort": {s.name}}
		for _, name := range []string{"state", "name"} {
			if text := v.query.Get(name); text != "" {
				q.Set(name, text)
			}
		}
		b.Sorts = append(b.Sorts, laneColumn{formChoice{Value: "lanes?" + q.Encode(), Title: s.title, On: i == by}, s.isNumber, s.ariaSort})
	}
	for _, name := range []string{"state", "sort"} {
		if text := v.query.Get(name); text != "" {
			b.Kept = append(b.Kept, formField{name, text})
		}
	}
	all, _, err := v.lanes.get(ctx)
	if err != nil {
		return nil, err
	}
	var rows []laneRow
	for _, r := range all.rows {
		if laneViews[view].includes(r) && strings.Contains(string(r.Service), b.Name) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, laneSorts[by].compare)
	begin := min(from, len(rows))
	end := min(begin+pageRows, len(rows))
	b.Rows, b.Incomplete, b.Looked = rows[begin:end], all.incomplete, len(all.rows)
	b.Pages = pageLinks{First: from == 0, Page: nextPageLink(v.query, "lanes", "from", "0")}
	if end < len(rows) {
		b.Pages.Next = nextPageLink(v.query, "lanes", "from", strconv.Itoa(end))
	}
	return &answer{page: "lanes", title: "Lanes", body: b}, nil
}

// heldLanesPage lists the lanes with a pause, a halt or a policy, by name. Some of them have no
// open batch.
func heldLanesPage(ctx context.Context, v *visit, b lanesBody) (*answer, error) {
	after, err := parseService(v.query.Get("after"))
	if err != nil {
		return nil, err
	}
	start := !v.query.Has("after")
	held, err := v.desk.Controls(ctx, store.ControlsQuery{After: after, Start: start, Limit: pageRows})
	if err != nil {
		return nil, err
	}
	for _, c := range held {
		b.Rows = append(b.Rows, laneRow{Service: c.Service, Control: c})
	}
	b.Pages = pageLinks{First: start, Page: "lanes?held=1"}
	if n := len(b.Rows); n == pageRows {
		b.Pages.Next = nextPageLink(v.query, "lanes", "after", string(b.Rows[n-1].Service))
	}
	return &answer{page: "lanes", title: "Lanes that are held or have a policy", body: b}, nil
}

// stateCounts returns the states that have batches, with their numbers.
func stateCounts(by map[batch.State]int) (list []stateCount) {
	for _, s := range batch.States() {
		if n := by[s]; n > 0 {
			list = append(list, stateCount{s, n})
		}
	}
	return list
}

// parsePlace reads a position in a list.
func parsePlace(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, &batch.InputError{Field: "from", Value: batch.Excerpt(text, 64), Want: "a place in the list"}
	}
	return n, nil
}
