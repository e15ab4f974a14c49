package console

import (
	"context"
	"strconv"

	"github.com/dltbatch/dltbatch/store"
)

// instancesBody lists the instances.
type instancesBody struct {
	Rows  []store.Instance
	Live  int
	All   int
	Pages pageLinks
}

// instancesPage lists the instances of Runners, live ones and gone ones.
func instancesPage(ctx context.Context, v *visit) (*answer, error) {
	from, err := parsePlace(v.query.Get("from"))
	if err != nil {
		return nil, err
	}
	s, err := v.desk.Stats(ctx)
	if err != nil {
		return nil, err
	}
	b := instancesBody{All: len(s.Instances), Pages: pageLinks{First: from == 0, Page: "instances"}}
	for _, i := range s.Instances {
		if i.Live {
			b.Live++
		}
	}
	begin := min(from, b.All)
	end := min(begin+pageRows, b.All)
	if b.Rows = s.Instances[begin:end]; end < b.All {
		b.Pages.Next = nextPageLink(v.query, "instances", "from", strconv.Itoa(end))
	}
	return &answer{page: "instances", title: "Instances", body: b}, nil
}
