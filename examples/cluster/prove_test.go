package main

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// prove returns an error for every journal that differs from what was promised.
func TestProve(t *testing.T) {
	added := []batch.Batch{{ID: "a1", Service: "a"}, {ID: "b1", Service: "b"}, {ID: "a2", Service: "a"}}
	begin := time.Now()
	post := func(id batch.ID, request int, at time.Duration) []sawtoothtest.Entry {
		start := begin.Add(at)
		return []sawtoothtest.Entry{
			{Kind: sawtoothtest.PostStart, Batches: []batch.ID{id}, Request: request, Time: start},
			{Kind: sawtoothtest.PostEnd, Batches: []batch.ID{id}, Request: request, Time: start.Add(time.Second)},
		}
	}
	var posts []sawtoothtest.Entry
	for i, b := range added {
		posts = append(posts, post(b.ID, i+1, 0)...)
	}
	blocks := func(ids ...batch.ID) (out []sawtoothtest.Entry) {
		for i, id := range ids {
			out = append(out, sawtoothtest.Entry{Kind: sawtoothtest.BlockCommitted, Batches: []batch.ID{id}, Block: i + 1, Time: begin.Add(2 * time.Second)})
		}
		return out
	}
	for name, c := range map[string]struct {
		ids   []batch.ID
		more  []sawtoothtest.Entry
		wrong string
	}{
		"as promised":     {ids: []batch.ID{"b1", "a1", "a2"}},
		"sent again":      {ids: []batch.ID{"a1", "a2", "b1"}, more: post("a1", 9, 2*time.Second)},
		"lost":            {ids: []batch.ID{"a1", "b1"}, wrong: "1 of 2 committed"},
		"nothing":         {wrong: "0 of 1 committed"},
		"twice":           {ids: []batch.ID{"a1", "a2", "a1", "b1"}, wrong: "committed in block 1 and again in block 3"},
		"out of order":    {ids: []batch.ID{"a2", "a1", "b1"}, wrong: "position 0 of 2: committed a2, want a1"},
		"not ours":        {ids: []batch.ID{"a1", "a2", "b1", "x"}, wrong: "1 committed and 0 expected"},
		"two at one time": {ids: []batch.ID{"a1", "a2", "b1"}, more: post("a1", 9, time.Second/2), wrong: "while POST 1 was going on"},
	} {
		t.Run(name, func(t *testing.T) {
			journal := slices.Concat(posts, c.more, blocks(c.ids...))
			err := prove(io.Discard, journal, added, 1, time.Second)
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "THE PROOF FAILS")
			require.ErrorContains(t, err, c.wrong)
		})
	}
}
