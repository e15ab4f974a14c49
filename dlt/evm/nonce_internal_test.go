package evm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNextNonce(t *testing.T) {
	type result struct {
		nonce         uint64
		isMissing, ok bool
	}
	for name, c := range map[string]struct {
		deep, latest, pending uint64
		held                  []uint64
		want                  result
	}{
		"nothing under way":                       {5, 5, 5, nil, result{5, false, true}},
		"somebody else's in a block":              {5, 6, 6, nil, result{5, false, false}},
		"somebody else's in the pool":             {5, 5, 6, nil, result{5, false, false}},
		"behind the lane's own":                   {5, 5, 7, []uint64{5, 6}, result{7, false, true}},
		"the lane's own, partly in a block":       {5, 6, 7, []uint64{5, 6}, result{7, false, true}},
		"the pool has forgotten the lane's own":   {5, 5, 5, []uint64{5, 6}, result{7, false, true}},
		"somebody else's above the lane's own":    {5, 5, 8, []uint64{5, 6}, result{7, false, false}},
		"one that nobody holds":                   {5, 5, 5, []uint64{6}, result{5, true, false}},
		"one between that nobody holds":           {5, 5, 6, []uint64{5, 7}, result{6, true, false}},
		"used ones that are still open":           {5, 5, 5, []uint64{3, 4}, result{5, false, true}},
		"used and open ones":                      {5, 5, 6, []uint64{4, 5}, result{6, false, true}},
		"the last block has less than a deep one": {5, 4, 5, nil, result{5, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			nonce, isMissing, ok := nextNonce(c.deep, c.latest, c.pending, c.held)
			assert.Equal(t, c.want, result{nonce, isMissing, ok})
		})
	}
}
