// Package desks joins the answers of several desks, which are those of the shards of a set
// (package shards), for the command and the console. If a shard fails, the answers of the others
// are still used.
package desks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Answer is the answer of one shard, or its error.
type Answer[T any] struct {
	Shard int   `json:"shard"`
	Value T     `json:"answer"`
	Err   error `json:"-"`
}

// Ask asks all shards at once. The answers are in the order of the shards.
func Ask[D, T any](ctx context.Context, all []D, ask func(ctx context.Context, d D) (T, error)) []Answer[T] {
	list := make([]Answer[T], len(all))
	var asked sync.WaitGroup
	for i, d := range all {
		asked.Go(func() {
			list[i].Shard = i
			list[i].Value, list[i].Err = ask(ctx, d)
		})
	}
	asked.Wait()
	return list
}

// WithoutErrors returns the answers without an error.
func WithoutErrors[T any](list []Answer[T]) (good []Answer[T]) {
	for _, a := range list {
		if a.Err == nil {
			good = append(good, a)
		}
	}
	return good
}

// Values returns the values of the answers without an error.
func Values[T any](list []Answer[T]) (values []T) {
	for _, a := range WithoutErrors(list) {
		values = append(values, a.Value)
	}
	return values
}

// NameShards names shards out of a number of shards: "shard 3", "shards 0 to 2 and 5", "all
// shards".
func NameShards(shards []int, of int) string {
	if len(shards) == of && of > 1 {
		return "all shards"
	}
	var parts []string
	for i := 0; i < len(shards); {
		end := i
		for end+1 < len(shards) && shards[end+1] == shards[end]+1 {
			end++
		}
		switch {
		case end >= i+2:
			parts = append(parts, fmt.Sprintf("%d to %d", shards[i], shards[end]))
		default:
			for ; i < end; i++ {
				parts = append(parts, fmt.Sprint(shards[i]))
			}
			parts = append(parts, fmt.Sprint(shards[end]))
		}
		i = end + 1
	}
	word := "shards "
	if len(shards) == 1 {
		word = "shard "
	}
	if n := len(parts); n > 1 {
		return word + strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return word + strings.Join(parts, "")
}

// Missing says which shards did not answer; "" if all did.
func Missing[T any](list []Answer[T]) string {
	var shards []int
	for _, a := range list {
		if a.Err != nil {
			shards = append(shards, a.Shard)
		}
	}
	if len(shards) == 0 {
		return ""
	}
	name := NameShards(shards, len(list))
	return strings.ToUpper(name[:1]) + name[1:] + " did not answer"
}

// Page joins pages of a list, one from each shard, into one page in the order of compare, with at
// most limit elements; 0 means no limit. more[i] is true if shard i has more elements after its
// page: elements of other shards that come after the end of that page cannot be shown yet. Of the
// shards with more, end is the index of the one whose page ends first; -1 if there is none. goesOn
// is true if the list continues after this page.
func Page[T any](pages [][]T, more []bool, limit int, compare func(a, b T) int) (page []T, end int, goesOn bool) {
	end = -1
	for i, p := range pages {
		page = append(page, p...)
		if more[i] && len(p) > 0 && (end < 0 || compare(p[len(p)-1], pages[end][len(pages[end])-1]) < 0) {
			end = i
		}
	}
	slices.SortStableFunc(page, compare)
	n := len(page)
	if end >= 0 {
		last := pages[end][len(pages[end])-1]
		for n > 0 && compare(page[n-1], last) > 0 {
			n--
		}
	}
	if limit > 0 && n > limit {
		for n = limit; n < len(page) && compare(page[n-1], page[n]) == 0; { // a cursor does not distinguish equal elements
			n++
		}
	}
	return page[:n], end, end >= 0 || n < len(page)
}
