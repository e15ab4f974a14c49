package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// The shard of a lane never changes. The wanted numbers were computed with Python's hashlib.
func TestShardOf(t *testing.T) {
	for service, want := range map[batch.ServiceID]map[int]int{
		"":                 {1: 0, 2: 0, 16: 4, 1000: 652},
		"a":                {1: 0, 2: 0, 16: 10, 1000: 250},
		"circuit::service": {1: 0, 2: 0, 16: 2, 1000: 242},
		"lane 7":           {1: 0, 2: 0, 16: 2, 1000: 650},
	} {
		for of, number := range want {
			assert.Equal(t, number, store.ShardOf(service, of), "%s of %d", service, of)
			require.NoError(t, store.Shard{Set: "s", Number: number, Of: of}.Has(service))
			if of > 1 {
				require.ErrorIs(t, store.Shard{Set: "s", Number: (number + 1) % of, Of: of}.Has(service), store.ErrOtherShard)
			}
		}
		require.NoError(t, store.Shard{}.Has(service))
	}
}

func TestShardValidate(t *testing.T) {
	for _, good := range []store.Shard{{}, {Set: "s", Of: 1}, {Set: "s", Number: 15, Of: 16}, {Set: "s", Number: 1023, Of: store.MaxShards}} {
		require.NoError(t, good.Validate(), good.String())
	}
	for _, bad := range []store.Shard{{Of: 1}, {Set: "s"}, {Set: "s", Number: 16, Of: 16}, {Set: "s", Number: -1, Of: 16}, {Set: "s", Of: store.MaxShards + 1}} {
		var inputErr *batch.InputError
		require.ErrorAs(t, bad.Validate(), &inputErr, bad.String())
	}
}
