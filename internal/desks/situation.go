package desks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/totals"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// IncidentShard is the kind of the incident of a shard that did not answer.
const IncidentShard operator.IncidentKind = "shard"

// JoinSituations joins the incidents of all shards. Each shard is judged by itself, since its
// batches need instances of their own. Incidents with the same text become one, whose text begins
// with the shards. page returns the address of an incident's page, from the shard and the address
// in that shard's console.
func JoinSituations(list []Answer[operator.Situation], page func(shard int, address string) string) (all operator.Situation) {
	good := WithoutErrors(list)
	all.Incidents, all.Moving, all.Counted = shardsDownIncident(list), []operator.MovingGroup{}, len(good) > 0
	all.State = worstState(good, len(list))
	found := map[[4]string]int{} // from the texts of an incident to its index
	var shards [][]int           // the shards of each incident
	var stats []store.Stats
	skip := len(all.Incidents)
	for _, a := range good {
		s := a.Value
		for _, i := range s.Incidents {
			words := [4]string{string(i.Kind), i.Text, i.Why, i.Do}
			at, known := found[words]
			if !known {
				at = len(shards)
				found[words] = at
				i.Page = page(a.Shard, i.Page)
				all.Incidents, shards = append(all.Incidents, i), append(shards, []int{a.Shard})
				continue
			}
			shards[at] = append(shards[at], a.Shard)
			one := &all.Incidents[skip+at]
			one.Batches, one.Behind, one.Lanes = one.Batches+i.Batches, one.Behind+i.Behind, one.Lanes+i.Lanes
			one.AtLeast, one.Sampled = one.AtLeast || i.AtLeast, one.Sampled || i.Sampled
			one.Oldest, one.For = max(one.Oldest, i.Oldest), max(one.For, i.For)
			one.Instances = append(one.Instances, i.Instances...)
			if one.Since.IsZero() || i.Since.Before(one.Since) && !i.Since.IsZero() {
				one.Since = i.Since
			}
		}
		all.Moving = joinMoving(all.Moving, s.Moving)
		all.Held, all.HeldMore = append(all.Held, s.Held...), all.HeldMore || s.HeldMore
		all.Counted = all.Counted && s.Counted
		all.Causes.Groups = append(all.Causes.Groups, s.Causes.Groups...)
		all.Causes.Incomplete = all.Causes.Incomplete || s.Causes.Incomplete
		all.Causes.Age, all.Causes.At = max(all.Causes.Age, s.Causes.Age), s.Causes.At
		stats = append(stats, s.Stats)
	}
	for i, shards := range shards {
		one := &all.Incidents[skip+i]
		name := NameShards(shards, len(list))
		one.Text = strings.ToUpper(name[:1]) + name[1:] + ": " + one.Text
	}
	slices.SortStableFunc(all.Incidents[skip:], func(a, b operator.Incident) int { return cmp.Compare(a.Kind.Rank(), b.Kind.Rank()) })
	slices.SortStableFunc(all.Moving, func(a, b operator.MovingGroup) int { return b.Batches - a.Batches })
	if len(stats) > 0 {
		all.Stats = totals.Sum(stats)
	}
	return all
}

// shardsDownIncident returns the incident about the shards that did not answer; nil if all did.
func shardsDownIncident[T any](list []Answer[T]) []operator.Incident {
	missing := Missing(list)
	if missing == "" {
		return []operator.Incident{}
	}
	return []operator.Incident{{
		Kind: IncidentShard, Text: missing + ": nothing of what it holds is shown here.",
		Do: "Look at the server, and at the error in the log or on the error output. The other shards go on meanwhile.", Command: "dltbatch doctor",
	}}
}

// worstState returns the worst state of all shards. "No instance runs" and "nothing is posted" are
// returned only if they hold for every shard; if they hold for some, the state is that a person is
// needed.
func worstState(good []Answer[operator.Situation], of int) operator.State {
	if len(good) < of {
		return operator.StatePerson
	}
	all := operator.StateWell
	for _, s := range []operator.State{operator.StateWaits, operator.StatePart, operator.StatePerson, operator.StateLedger, operator.StateStopped} {
		n := 0
		for _, a := range good {
			if a.Value.State == s {
				n++
			}
		}
		switch {
		case n == 0:
		case n < len(good) && (s == operator.StateLedger || s == operator.StateStopped):
			all = operator.StatePerson
		default:
			all = s
		}
	}
	return all
}

// joinMoving adds the batches of a shard that move by themselves to those of the other shards.
func joinMoving(all, more []operator.MovingGroup) []operator.MovingGroup {
	for _, m := range more {
		at := slices.IndexFunc(all, func(o operator.MovingGroup) bool { return o.Reason == m.Reason })
		if at < 0 {
			all = append(all, m)
			continue
		}
		one := &all[at]
		if m.Oldest > one.Oldest {
			one.Oldest, one.Example, one.Blocker = m.Oldest, m.Example, m.Blocker
		}
		one.Batches, one.Lanes, one.Behind = one.Batches+m.Batches, one.Lanes+m.Lanes, one.Behind+m.Behind
		one.AtLeast, one.Sampled = one.AtLeast || m.AtLeast, one.Sampled || m.Sampled
		one.Attempts = max(one.Attempts, m.Attempts)
	}
	return all
}

// JoinLookups joins the hits of several shards, whole names first.
func JoinLookups(list []operator.Lookup) operator.Lookup {
	all := operator.Lookup{Hits: []operator.Hit{}}
	for _, l := range list {
		all.Hits, all.More = append(all.Hits, l.Hits...), all.More || l.More
	}
	slices.SortStableFunc(all.Hits, func(a, b operator.Hit) int {
		if a.Whole == b.Whole {
			return 0
		}
		if a.Whole {
			return -1
		}
		return 1
	})
	return all
}

// CompareAge compares batches in the order of lists: by the time when they were added.
func CompareAge(a, b batch.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// JoinSearched joins the open batches that several shards found, oldest first. limit is the
// largest number of batches (0 means 100; at most 1,000, as in [operator.SearchQuery]).
func JoinSearched(list []operator.SearchResult, limit int) operator.SearchResult {
	all := operator.SearchResult{Batches: []batch.Record{}}
	for _, s := range list {
		all.Batches, all.Examined, all.Incomplete = append(all.Batches, s.Batches...), all.Examined+s.Examined, all.Incomplete || s.Incomplete
	}
	slices.SortStableFunc(all.Batches, CompareAge)
	if limit = min(cmp.Or(max(limit, 0), 100), 1000); len(all.Batches) > limit {
		all.Batches, all.Incomplete = all.Batches[:limit], true
	}
	return all
}
