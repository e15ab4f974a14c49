package console

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/operator"
)

// Limits of the hits of each kind that a search shows, and of the suggestions below its field.
const (
	maxSearchHits  = 20
	maxSuggestions = 8
)

// searchBody is the data of the page of a search that did not lead to a single batch.
type searchBody struct {
	Q     string
	Asked bool
	Lanes []batch.ServiceID
	// Batches and Orders are those whose id or caller's key is the text, or begins with it.
	Batches []batch.Record
	Orders  []order.Record
	More    bool   // there are more that begin with the text
	Missing string // names the shards that did not answer
}

// searchPage finds batches and orders by their ids and their callers' keys, and lanes by their
// names: by the whole text, or by its beginning. A batch whose whole name is the text, or a single
// hit, is shown at once.
func searchPage(ctx context.Context, v *visit) (*answer, error) {
	b := searchBody{Q: strings.TrimSpace(v.query.Get("q"))}
	b.Asked = b.Q != ""
	found, missing, err := v.lookup(ctx, b.Q, maxSearchHits)
	if err != nil {
		return nil, err
	}
	b.Missing = missing
	if one := onlyHit(found); one != nil && missing == "" {
		return &answer{redirectTo: hitLink(*one)}, nil
	}
	seen := map[batch.Key]bool{}
	for _, h := range found.Hits {
		switch {
		case h.Lane != nil:
			b.Lanes = append(b.Lanes, *h.Lane)
		case h.Order != nil:
			b.Orders = append(b.Orders, *h.Order)
		case !seen[h.Batch.Key]:
			seen[h.Batch.Key] = true
			b.Batches = append(b.Batches, *h.Batch)
		}
	}
	b.More = found.More
	return &answer{page: "search", title: "Search", body: b}, nil
}

// onlyHit returns the hit that is shown at once; nil if there is none.
func onlyHit(found operator.Lookup) (one *operator.Hit) {
	if len(found.Hits) == 1 && found.Hits[0].Order == nil {
		return &found.Hits[0]
	}
	for i, h := range found.Hits {
		if h.Whole && h.Batch != nil {
			if one != nil && one.Batch.Key != h.Batch.Key {
				return nil
			}
			one = &found.Hits[i]
		}
	}
	return one
}

// hitLink returns the page about a hit.
func hitLink(h operator.Hit) string {
	switch {
	case h.Lane != nil:
		return scopeLink(batch.Only(*h.Lane))
	case h.Batch != nil:
		return batchLink(h.Batch.Key)
	case h.Order.Batch != "":
		return batchLink(batch.Key{Service: h.Order.Party, ID: h.Order.Batch})
	}
	return pageLink("search", "q", string(h.Order.ID))
}

// suggestion is a line below the search field.
type suggestion struct {
	Kind  string `json:"kind"` // such as "batch id"
	Name  string `json:"name"`
	Lane  string `json:"lane,omitempty"`
	State string `json:"state,omitempty"`
	Href  string `json:"href"` // relative to the console
}

// suggestionsAnswer answers while a person types, with the hits of a search.
func suggestionsAnswer(ctx context.Context, v *visit) (*answer, error) {
	found, _, err := v.lookup(ctx, strings.TrimSpace(v.query.Get("q")), maxSuggestions)
	if err != nil {
		return nil, err
	}
	body := struct {
		Hits []suggestion `json:"hits"`
		More bool         `json:"more"`
	}{[]suggestion{}, found.More || len(found.Hits) > maxSuggestions}
	for _, h := range found.Hits[:min(len(found.Hits), maxSuggestions)] {
		s := suggestion{Kind: h.By, Name: legible.Text(h.Name), Href: hitLink(h)}
		switch {
		case h.Batch != nil:
			s.Lane, s.State = legible.Text(string(h.Batch.Service)), h.Batch.State.String()
		case h.Order != nil:
			s.Lane, s.State = legible.Text(string(h.Order.Party)), h.Order.State.String()
		}
		body.Hits = append(body.Hits, s)
	}
	text, err := json.Marshal(body)
	return &answer{json: text}, err
}
