package console

import (
	"context"
	"fmt"
	"net/url"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// named reads the name of a service.
func named(text string) (batch.ServiceID, error) {
	s := batch.ServiceID(text)
	return s, batch.Only(s).Validate()
}

// only returns the service that a list is about; nil is all. A link names one exactly, a form leaves
// its field empty for all.
func only(q url.Values) (*batch.ServiceID, error) {
	text := q.Get("service")
	if q.Has("lane") {
		text = q.Get("lane")
	} else if text == "" {
		return nil, nil //nolint:nilnil // all services
	}
	s, err := named(text)
	return &s, err
}

// shownService is what the field of a form shows.
func shownService(s *batch.ServiceID) batch.ServiceID {
	if s == nil {
		return ""
	}
	return *s
}

// parse reads words such as the names of states; an empty word does not count.
func parse[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](texts []string) (list []T, err error) {
	for _, text := range texts {
		if text == "" {
			continue
		}
		var v T
		if err := P(&v).UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// choice is one value of a field of a form.
type choice struct {
	Value, Title string
	On           bool
	// Not is why it cannot be chosen now.
	Not string
}

// choices offers values by their names.
func choices[T fmt.Stringer](all []T, on []string) []choice {
	list := make([]choice, len(all))
	for i, v := range all {
		list[i] = choice{Value: v.String(), Title: v.String()}
		for _, o := range on {
			list[i].On = list[i].On || o == v.String()
		}
	}
	return list
}

// pager leads on through a list.
type pager struct {
	First      bool   // this is the first page
	Page, Next string // the addresses of the first page and of the next; Next is "" at the end
}

// lanesBody lists lanes.
type lanesBody struct {
	Held  bool // only lanes with a pause, a halt or a policy
	Rows  []laneRow
	Pages pager
}

type laneRow struct {
	Service   batch.ServiceID
	Waiting   int
	AtLeast   bool
	Attempted []stateCount
	Control   batch.Control
}

// lanes lists the lanes with open batches, or the held lanes.
func lanes(ctx context.Context, v *visit) (*answer, error) {
	after, err := named(v.q.Get("after"))
	if err != nil {
		return nil, err
	}
	start := !v.q.Has("after")
	b := lanesBody{Held: v.q.Get("held") != "", Pages: pager{First: start, Page: "lanes"}}
	if b.Held {
		b.Pages.Page = link("lanes", "held", "1")
		held, err := v.desk.Controls(ctx, store.ControlsQuery{After: after, Start: start, Limit: pageRows})
		if err != nil {
			return nil, err
		}
		for _, c := range held {
			b.Rows = append(b.Rows, laneRow{Service: c.Service, Control: c})
		}
	} else {
		q := store.CountsQuery{After: after, Start: start, Limit: pageRows}
		counts, err := v.desk.Lanes(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, l := range counts {
			b.Rows = append(b.Rows, laneRow{Service: l.Service, Waiting: l.Waiting, AtLeast: l.Waiting >= q.Bounded().Cap, Attempted: counted(l.Attempted)})
		}
		if err := controls(ctx, v.desk, b.Rows, store.ControlsQuery{After: after, Start: start, Limit: 1000}); err != nil {
			return nil, err
		}
	}
	if n := len(b.Rows); n == pageRows {
		b.Pages.Next = further(v.q, "lanes", "after", string(b.Rows[n-1].Service))
	}
	return &answer{page: "lanes", title: map[bool]string{false: "Lanes with open batches", true: "Lanes that are held"}[b.Held], body: b}, nil
}

// counted are the states that have batches.
func counted(by map[batch.State]int) (list []stateCount) {
	for _, s := range batch.States() {
		if n := by[s]; n > 0 {
			list = append(list, stateCount{s, n})
		}
	}
	return list
}

// controls adds the controls of lanes, which are in order.
func controls(ctx context.Context, desk *operator.Desk, rows []laneRow, q store.ControlsQuery) error {
	held := map[batch.ServiceID]batch.Control{}
	for len(rows) > 0 {
		list, err := desk.Controls(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range list {
			held[c.Service] = c
		}
		if n := len(list); n < q.Limit || list[n-1].Service >= rows[len(rows)-1].Service {
			break
		}
		q.After, q.Start = list[len(list)-1].Service, false
	}
	for i := range rows {
		rows[i].Control = held[rows[i].Service]
	}
	return nil
}

// batchesBody lists batches.
type batchesBody struct {
	Service batch.ServiceID
	Show    []choice
	States  []choice
	Rows    []batch.Record
	Pages   pager
}

// batches lists batches by age.
func batches(ctx context.Context, v *visit) (*answer, error) {
	service, err := only(v.q)
	if err != nil {
		return nil, err
	}
	q := store.ListQuery{Service: service, Limit: pageRows, After: store.Cursor(v.q.Get("after"))}
	if q.States, err = parse[batch.State](v.q["state"]); err != nil {
		return nil, err
	}
	show := v.q.Get("show")
	switch {
	case show == "quarantined":
		q.Quarantined = true
	case show != "all" && len(q.States) == 0:
		q.Open, show = true, "open"
	}
	b := batchesBody{
		Service: shownService(q.Service), Pages: pager{First: q.After == "", Page: "batches"}, States: choices(batch.States(), v.q["state"]),
		Show: []choice{
			{Value: "open", Title: "open", On: show == "open"}, {Value: "all", Title: "all, final ones too", On: show == "all"},
			{Value: "quarantined", Title: "set aside by a policy", On: show == "quarantined"},
		},
	}
	var next store.Cursor
	if b.Rows, next, err = v.desk.List(ctx, q); err != nil {
		return nil, err
	}
	if next != "" {
		b.Pages.Next = further(v.q, "batches", "after", string(next))
	}
	return &answer{page: "batches", title: "Batches by age", body: b}, nil
}
