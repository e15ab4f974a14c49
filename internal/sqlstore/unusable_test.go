package sqlstore

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A scan passes over a name that no call accepts, and finds all lanes after it. A warning names it
// until scans no longer find it.
func TestUnusableNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := []batch.ServiceID{"Z\xfcrich", "a\nb", batch.ServiceID(strings.Repeat("x", 2000))}
		for limit := 1; limit < 9; limit++ {
			var u Unusable
			all := append([]batch.ServiceID{"a", "b", "c", "d", "東京"}, bad...)
			slices.Sort(all)
			read := func(q store.LanesQuery) ([]batch.ServiceID, error) {
				at := 0
				if !q.Start {
					at = slices.IndexFunc(all, func(s batch.ServiceID) bool { return s > q.After })
				}
				if at < 0 {
					return nil, nil
				}
				return all[at:min(len(all), at+q.Limit)], nil
			}
			var found []batch.ServiceID
			for q := (store.LanesQuery{Start: true, Limit: limit}); ; q.Start = false {
				page, err := u.Page(q, read)
				require.NoError(t, err)
				found = append(found, page...)
				if len(page) < limit {
					break
				}
				q.After = page[len(page)-1]
			}
			assert.Equal(t, []batch.ServiceID{"a", "b", "c", "d", "東京"}, found, "limit %d", limit)
			warnings := u.Warnings(time.Now())
			require.Len(t, warnings, 1)
			assert.ErrorContains(t, warnings[0].Err, `"Z\xfcrich"`)
			assert.ErrorContains(t, warnings[0].Err, "3 services")
			time.Sleep(unusableLifetime)
			assert.Empty(t, u.Warnings(time.Now()))
		}
	})
}
