package batch_test

import (
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

func TestConflicts(t *testing.T) {
	both := func(r, w string) batch.Footprint {
		return batch.Footprint{Reads: []string{r}, Writes: []string{w}}
	}
	for name, c := range map[string]struct {
		a, b batch.Footprint
		want bool
	}{
		"nothing declared":       {batch.Footprint{}, batch.Footprint{}, true},
		"nothing and something":  {batch.Footprint{}, fp("00"), true},
		"nothing and a read":     {batch.Footprint{}, reads("00"), true},
		"the same address":       {fp("00aa"), fp("00aa"), true},
		"a prefix of it":         {fp("00"), fp("00aa"), true},
		"everything":             {fp(""), fp("00aa"), true},
		"everything, read":       {reads(""), fp("00aa"), true},
		"apart":                  {fp("00"), fp("01"), false},
		"a common beginning":     {fp("00aa"), fp("00ab"), false},
		"read and read":          {reads("00"), reads("00"), false},
		"write and read":         {fp("00"), reads("00aa"), true},
		"read and write":         {reads("00aa"), fp("00"), true},
		"own reads do not count": {both("00", "11"), both("00", "22"), false},
		"it reads what I write":  {both("00", "11"), both("11", "22"), true},
		"I read what it writes":  {both("22", "11"), both("00", "22"), true},
		"one of many":            {fp("00", "11", "22"), fp("33", "2255"), true},
		"none of many":           {fp("00", "11", "22"), fp("33", "44"), false},
	} {
		assert.Equal(t, c.want, c.a.Conflicts(c.b), name)
		assert.Equal(t, c.want, c.b.Conflicts(c.a), "%s, the other way", name)
	}
	assert.True(t, batch.Footprint{}.Empty())
	assert.False(t, fp("").Empty())
	assert.False(t, reads("").Empty())
}

func TestConflictsIsSymmetric(t *testing.T) {
	short := func(in [][2]bool) []string { // few letters, so that many are prefixes of others
		var out []string
		for _, p := range in {
			s := ""
			for _, b := range p {
				if b {
					s += "0"
				} else {
					s += "1"
				}
			}
			out = append(out, s[:len(in)%3])
		}
		return out
	}
	require.NoError(t, quick.Check(func(ar, aw, br, bw [][2]bool) bool {
		a := batch.Footprint{Reads: short(ar), Writes: short(aw)}
		b := batch.Footprint{Reads: short(br), Writes: short(bw)}
		return a.Conflicts(b) == b.Conflicts(a)
	}, nil))
}
