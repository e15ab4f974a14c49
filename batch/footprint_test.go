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
		"nothing and something":  {batch.Footprint{}, writesFootprint("00"), true},
		"nothing and a read":     {batch.Footprint{}, readsFootprint("00"), true},
		"the same address":       {writesFootprint("00aa"), writesFootprint("00aa"), true},
		"a prefix of it":         {writesFootprint("00"), writesFootprint("00aa"), true},
		"everything":             {writesFootprint(""), writesFootprint("00aa"), true},
		"everything, read":       {readsFootprint(""), writesFootprint("00aa"), true},
		"apart":                  {writesFootprint("00"), writesFootprint("01"), false},
		"a common beginning":     {writesFootprint("00aa"), writesFootprint("00ab"), false},
		"read and read":          {readsFootprint("00"), readsFootprint("00"), false},
		"write and read":         {writesFootprint("00"), readsFootprint("00aa"), true},
		"read and write":         {readsFootprint("00aa"), writesFootprint("00"), true},
		"own reads do not count": {both("00", "11"), both("00", "22"), false},
		"it reads what I write":  {both("00", "11"), both("11", "22"), true},
		"I read what it writes":  {both("22", "11"), both("00", "22"), true},
		"one of many":            {writesFootprint("00", "11", "22"), writesFootprint("33", "2255"), true},
		"none of many":           {writesFootprint("00", "11", "22"), writesFootprint("33", "44"), false},
	} {
		assert.Equal(t, c.want, c.a.Conflicts(c.b), name)
		assert.Equal(t, c.want, c.b.Conflicts(c.a), "%s, the other way", name)
	}
	assert.True(t, batch.Footprint{}.Empty())
	assert.False(t, writesFootprint("").Empty())
	assert.False(t, readsFootprint("").Empty())
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
