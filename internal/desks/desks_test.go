package desks_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/operator"
)

// Page returns every element once and in order, wherever the pages of the shards end.
func TestPage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		shards, limit := make([][]int, 1+rng.IntN(4)), rng.IntN(5)
		var all []int
		for i := range shards {
			for range rng.IntN(12) {
				n := rng.IntN(40)
				shards[i], all = append(shards[i], n), append(all, n)
			}
			slices.Sort(shards[i])
		}
		slices.Sort(all)
		var got []int
		for after, goesOn := -1, true; goesOn; {
			pages, more := make([][]int, len(shards)), make([]bool, len(shards))
			for i, s := range shards {
				begin, _ := slices.BinarySearch(s, after+1)
				end := min(len(s), begin+1+rng.IntN(4))
				for end < len(s) && end > begin && s[end] == s[end-1] { // a shard's own cursor distinguishes equal elements
					end++
				}
				pages[i], more[i] = s[begin:end], end < len(s)
			}
			page, end, on := desks.Page(pages, more, limit, cmp.Compare[int])
			if got, goesOn = append(got, page...), on; on {
				require.NotEmpty(t, page)
				after = page[len(page)-1]
			}
			if limit == 0 && on {
				require.Equal(t, after, pages[end][len(pages[end])-1], "the page ends where that of a shard does")
			}
		}
		require.Equal(t, all, got)
	}
}

func TestNamed(t *testing.T) {
	for want, shards := range map[string][]int{
		"shard 3": {3}, "shards 0 and 1": {0, 1}, "shards 0 to 2 and 5": {0, 1, 2, 5}, "shards 1, 3 and 5": {1, 3, 5}, "all shards": {0, 1, 2, 3, 4, 5, 6, 7},
	} {
		assert.Equal(t, want, desks.NameShards(shards, 8))
	}
	assert.Equal(t, "shard 0", desks.NameShards([]int{0}, 1))
}

// A shard that fails is named first, and the others are still shown. Each shard is judged by
// itself; incidents with the same text in several shards are joined.
func TestSituation(t *testing.T) {
	of := func(state operator.State, kinds ...operator.IncidentKind) (s operator.Situation) {
		s.State = state
		for _, k := range kinds {
			s.Incidents = append(s.Incidents, operator.Incident{Kind: k, Text: "It is so.", Batches: 2, Page: "instances", For: time.Minute})
		}
		s.Moving = []operator.MovingGroup{{Group: operator.Group{Reason: operator.Reason{Cause: batch.CauseReady}, Batches: 3, Lanes: 1}}}
		return s
	}
	list := desks.Ask(t.Context(), []operator.Situation{
		of(operator.StateWell, operator.IncidentGrowing), of(operator.StateStopped, operator.IncidentNoInstance, operator.IncidentPaused), {}, of(operator.StatePerson, operator.IncidentPaused),
	}, func(_ context.Context, s operator.Situation) (operator.Situation, error) {
		if s.State == "" {
			return s, errors.New("connection refused")
		}
		return s, nil
	})
	all := desks.JoinSituations(list, func(shard int, page string) string { return fmt.Sprint(shard, "/", page) })
	var texts []string
	for _, i := range all.Incidents {
		texts = append(texts, fmt.Sprint(i.Kind, " ", i.Text, " ", i.Batches, " ", i.Page))
	}
	assert.Equal(t, []string{
		"shard Shard 2 did not answer: nothing of what it holds is shown here. 0 ",
		"no_instance Shard 1: It is so. 2 1/instances", "paused Shards 1 and 3: It is so. 4 1/instances", "growing Shard 0: It is so. 2 0/instances",
	}, texts)
	assert.Equal(t, operator.StatePerson, all.State)
	require.Len(t, all.Moving, 1)
	assert.Equal(t, 9, all.Moving[0].Batches)

	stopped := desks.Answer[operator.Situation]{Value: of(operator.StateStopped)}
	well := desks.Answer[operator.Situation]{Shard: 1, Value: of(operator.StateWell)}
	page := func(_ int, page string) string { return page }
	assert.Equal(t, operator.StateStopped, desks.JoinSituations([]desks.Answer[operator.Situation]{stopped, stopped}, page).State)
	assert.Equal(t, operator.StatePerson, desks.JoinSituations([]desks.Answer[operator.Situation]{stopped, well}, page).State, "some instances run")
	assert.Equal(t, operator.StateWell, desks.JoinSituations([]desks.Answer[operator.Situation]{well, well}, page).State)
}
