package operator

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// SearchQuery selects open batches by properties that have no index. A batch must meet all
// conditions that are set; the zero value selects every open batch.
type SearchQuery struct {
	// Filter is as in a [Bulk], and selects open batches only. With Quarantined set nothing
	// matches, because a batch in quarantine is final.
	Filter
	// Trace is the trace id in the TraceParent with which the batch was added: 32
	// hexadecimal digits.
	Trace string
	// Attempts is the smallest number of attempts.
	Attempts int
	// Limit is how many batches are returned, at most 1,000. The default is 100.
	Limit int
	// Within limits how long the search may take. The default is 2 s.
	Within time.Duration
}

// SearchResult is an answer of [Desk.Search].
type SearchResult struct {
	// Batches are the oldest batches that match.
	Batches []batch.Record `json:"batches"`
	// Looked is the number of open batches that were read.
	Examined int `json:"examined"`
	// Incomplete is true if the search ended before all open batches were read: the time ran out,
	// or more than Limit batches match.
	Incomplete bool `json:"incomplete,omitzero"`
}

// Search reads the open batches, oldest first, and returns those that match. Its cost grows with
// the number of open batches, for at most q.Within. It changes nothing. It needs a store with
// [store.CanList], and with [store.CanSurvey] if q has causes. The error is a [*batch.InputError]
// for an invalid Trace, and for a [Filter] with an age below 0 or an empty list.
func (d *Desk) Search(ctx context.Context, q SearchQuery) (SearchResult, error) {
	if id, err := hex.DecodeString(q.Trace); err != nil || len(id) != 16 && q.Trace != "" {
		return SearchResult{}, fmt.Errorf("search: %w", &batch.InputError{
			Field: "SearchQuery.Trace", Value: batch.Excerpt(q.Trace, 64), Want: "32 hexadecimal digits",
		})
	}
	if err := q.Filter.check(); err != nil {
		return SearchResult{}, fmt.Errorf("search: %w", err)
	}
	if q.Within <= 0 {
		q.Within = 2 * time.Second
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	q.Limit = min(q.Limit, 1000)
	bounded, cancel := context.WithTimeout(ctx, q.Within)
	defer cancel()
	found := SearchResult{Batches: []batch.Record{}}
	err := d.search(bounded, q, &found)
	switch {
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		found.Incomplete = true
	case err != nil:
		return SearchResult{}, fmt.Errorf("search: %w", err)
	}
	return found, nil
}

func (d *Desk) search(ctx context.Context, q SearchQuery, found *SearchResult) error {
	if q.Quarantined {
		return nil
	}
	list := store.ListQuery{Service: q.Service, Tag: q.Tag, Open: true, OlderThan: q.OlderThan, NewerThan: q.NewerThan, Limit: 1000}
	v, reasons := d.newView(), map[batch.ServiceID]laneReasons{}
	for {
		page, next, err := d.store.List(ctx, list)
		if err != nil {
			return err
		}
		found.Examined += len(page)
		page = slices.DeleteFunc(page, func(rec batch.Record) bool { return !q.matches(rec) })
		if len(q.Causes) > 0 {
			if err := v.addReasons(ctx, page, reasons); err != nil {
				return err
			}
		}
		for _, rec := range page {
			if len(q.Causes) > 0 && !slices.Contains(q.Causes, reasons[rec.Service].reasonOf(rec).Cause) {
				continue
			}
			if len(found.Batches) == q.Limit {
				found.Incomplete = true
				return nil
			}
			found.Batches = append(found.Batches, rec)
		}
		if list.After = next; next == "" {
			return nil
		}
	}
}

// matches reports whether a record meets the conditions of the query except its causes.
func (q SearchQuery) matches(rec batch.Record) bool {
	if q.Trace != "" {
		_, trace, _ := strings.Cut(rec.TraceParent, "-")
		if trace, _, _ = strings.Cut(trace, "-"); !strings.EqualFold(trace, q.Trace) {
			return false
		}
	}
	return rec.Attempt >= q.Attempts &&
		(len(q.States) == 0 || slices.Contains(q.States, rec.State)) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, kindOf(rec.Error)))
}
