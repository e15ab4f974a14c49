package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// parseService reads the name of a service.
func parseService(text string) (batch.ServiceID, error) {
	s := batch.ServiceID(text)
	return s, batch.Only(s).Validate()
}

// serviceOf returns the service whose batches a list shows; nil means all services. A link always
// names one exactly. A form leaves the field empty to mean all.
func serviceOf(q url.Values) (*batch.ServiceID, error) {
	text := q.Get("service")
	if q.Has("lane") {
		text = q.Get("lane")
	} else if text == "" {
		return nil, nil //nolint:nilnil // nil means all services
	}
	s, err := parseService(text)
	return &s, err
}

// shownService returns the text of a form's field for a service.
func shownService(s *batch.ServiceID) batch.ServiceID {
	if s == nil {
		return ""
	}
	return *s
}

// parse reads values such as the names of states; empty values are ignored.
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

// formChoice is one value of a field in a form.
type formChoice struct {
	Value, Title string
	On           bool
	// Not is why the value cannot be chosen now; "" if it can.
	Not string
}

// choices returns a choice for each value, and marks those in on.
func choices[T fmt.Stringer](all []T, on []string) []formChoice {
	list := make([]formChoice, len(all))
	for i, v := range all {
		list[i] = formChoice{Value: v.String(), Title: v.String()}
		for _, o := range on {
			list[i].On = list[i].On || o == v.String()
		}
	}
	return list
}

// pageLinks holds the links to other pages of a list.
type pageLinks struct {
	First      bool   // this is the first page
	Page, Next string // the addresses of the first page and of the next; Next is "" at the end
}

// batchesBody lists batches.
type batchesBody struct {
	Service batch.ServiceID
	Tag     string
	Newest  bool // newest first
	Show    []formChoice
	States  []formChoice
	Rows    []batch.Record
	Pages   pageLinks
}

// batchesPage lists batches by age.
func batchesPage(ctx context.Context, v *visit) (*answer, error) {
	service, err := serviceOf(v.query)
	if err != nil {
		return nil, err
	}
	q := store.ListQuery{Service: service, Limit: pageRows, After: store.Cursor(v.query.Get("after"))}
	tag, show := strings.TrimSpace(v.query.Get("tag")), v.query.Get("show")
	if tag != "" {
		if q.Tag, err = batch.ParseTag(tag); err != nil {
			return nil, err
		}
		show = cmp.Or(show, "all")
	}
	q.NewestFirst = v.query.Get("first") == "newest"
	if q.States, err = parse[batch.State](v.query["state"]); err != nil {
		return nil, err
	}
	switch {
	case show == "quarantined":
		q.Quarantined = true
	case show != "all" && len(q.States) == 0:
		q.Open, show = true, "open"
	}
	b := batchesBody{
		Service: shownService(q.Service), Tag: tag, Newest: q.NewestFirst, Pages: pageLinks{First: q.After == "", Page: nextPageLink(v.query, "batches", "after", "")}, States: choices(batch.States(), v.query["state"]),
		Show: []formChoice{
			{Value: "open", Title: "open", On: show == "open"}, {Value: "all", Title: "all, final ones too", On: show == "all"},
			{Value: "quarantined", Title: "set aside by a policy", On: show == "quarantined"},
		},
	}
	var next store.Cursor
	if b.Rows, next, err = v.desk.List(ctx, q); err != nil {
		return nil, err
	}
	if next != "" {
		b.Pages.Next = nextPageLink(v.query, "batches", "after", string(next))
	}
	return &answer{page: "batches", title: "Batches by age", body: b}, nil
}
