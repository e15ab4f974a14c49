package sawtoothtest

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Blocks come in pages, the newest block first.
func TestPagesOfBlocks(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	for i := range 4 {
		commitValue(t, n, "x", int64(i))
	}
	page := func(query string, want ...int) map[string]any {
		r := sendRequest(t, http.MethodGet, n.URL()+"/blocks"+query, "", nil)
		require.Equal(t, http.StatusOK, r.status, r.body)
		var got []int
		for _, b := range r.json["data"].([]any) {
			num, err := strconv.Atoi(b.(map[string]any)["header"].(map[string]any)["block_num"].(string))
			require.NoError(t, err)
			got = append(got, num)
		}
		require.Equal(t, want, got)
		return r.json["paging"].(map[string]any)
	}
	assert.Equal(t, map[string]any{"limit": nil, "start": nil}, page("", 4, 3, 2, 1, 0))
	paging := page("?limit=1", 4)
	assert.EqualValues(t, 1, paging["limit"])
	assert.Equal(t, "0x0000000000000003", paging["next_position"])
	assert.Contains(t, paging["next"], "start=0x0000000000000003")
	paging = page("?limit=2&start=0x0000000000000001", 1, 0)
	assert.NotContains(t, paging, "next")
	for query, code := range map[string]int{"?limit=0": codeCountInvalid, "?limit=x": codeCountInvalid, "?start=5": codePagingInvalid, "?start=-1": codePagingInvalid} {
		assert.Equal(t, code, sendRequest(t, http.MethodGet, n.URL()+"/blocks"+query, "", nil).code(), query)
	}
}
