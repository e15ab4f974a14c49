package sqlite

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Somebody has written service names without this package, as a text that is not UTF-8 or that has
// a line break. Lanes finds the other lanes, and a warning names these.
func TestNamesThatNoCallTakes(t *testing.T) {
	s, _, _ := newTestStore(t)
	require.NoError(t, s.Add(t.Context(), newBatch("a", 1), newBatch("b1", 2), newBatch("b2", 3), newBatch("c", 5)))
	for service, value := range map[string]string{"b1": "CAST(x'62FC' AS TEXT)", "b2": "'b' || char(10)"} {
		for _, table := range []string{"batches", "open_batches"} {
			_, err := s.db.Exec("UPDATE dltbatch_"+table+" SET service_id = "+value+" WHERE service_id = ?", service)
			require.NoError(t, err)
		}
	}
	for limit := 1; limit < 7; limit++ {
		var found []batch.ServiceID
		for q := (store.LanesQuery{Start: true, Limit: limit}); ; q.Start = false {
			page, err := s.Lanes(t.Context(), q)
			require.NoError(t, err)
			found = append(found, page...)
			if len(page) < limit {
				break
			}
			q.After = page[len(page)-1]
		}
		assert.Equal(t, []batch.ServiceID{"a", "c"}, found, "limit %d", limit)
	}
	warnings, err := s.Upkeep(t.Context())
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	assert.Equal(t, "unusable names", warnings[0].Name)
	assert.ErrorContains(t, warnings[0].Err, `"b\n"`)
}
