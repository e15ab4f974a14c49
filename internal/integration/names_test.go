package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// A read with a name that PostgreSQL refuses finds nothing or returns an input error. The
// database's own error would look like a failure of the database.
func TestNamesThatPostgreSQLRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := newSpace(t, nativePool).app()
	for _, bad := range []batch.ServiceID{"\x00", "\xff"} {
		key := batch.Key{Service: bad, ID: batch.ID(bad)}
		cursor := store.CursorAfter(time.UnixMicro(1), string(bad))
		for name, c := range map[string]struct {
			want error // nil if nothing is found
			do   func() error
		}{
			"list a service":    {nil, func() error { _, _, err := st.List(ctx, store.ListQuery{Service: &bad}); return err }},
			"list after":        {batch.ErrInvalidInput, func() error { _, _, err := st.List(ctx, store.ListQuery{After: cursor}); return err }},
			"list orders after": {batch.ErrInvalidInput, func() error { _, _, err := st.ListOrders(ctx, order.ListQuery{After: cursor}); return err }},
			"list orders of": {nil, func() error {
				_, _, err := st.ListOrders(ctx, order.ListQuery{Party: &bad, Batch: batch.ID(bad)})
				return err
			}},
			"count a service": {nil, func() error { _, err := st.Counts(ctx, store.CountsQuery{Service: &bad}); return err }},
			"count after":     {batch.ErrInvalidInput, func() error { _, err := st.Counts(ctx, store.CountsQuery{After: bad}); return err }},
			"controls after":  {batch.ErrInvalidInput, func() error { _, err := st.ControlsOf(ctx, store.ControlsQuery{After: bad}); return err }},
			"survey a service": {nil, func() error {
				_, err := st.Survey(ctx, store.SurveyQuery{Services: []batch.ServiceID{bad}})
				return err
			}},
			"survey after":  {batch.ErrInvalidInput, func() error { _, err := st.Survey(ctx, store.SurveyQuery{After: bad}); return err }},
			"brief after":   {batch.ErrInvalidInput, func() error { _, err := st.Survey(ctx, store.SurveyQuery{After: bad, Brief: true}); return err }},
			"parties after": {batch.ErrInvalidInput, func() error { _, err := st.Parties(ctx, order.PartiesQuery{After: bad, Limit: 9}); return err }},
			"get":           {batch.ErrNotFound, func() error { _, err := st.Get(ctx, key); return err }},
			"history":       {batch.ErrNotFound, func() error { _, err := st.History(ctx, key); return err }},
			"texts":         {batch.ErrInvalidInput, func() error { _, _, err := st.ReadTexts(ctx, "kind", string(bad)); return err }},
			"find": {nil, func() error {
				found, _, err := st.Find(ctx, store.FindQuery{Service: &bad, DataChangeID: string(bad)})
				assert.Empty(t, found)
				return err
			}},
			"find lanes": {nil, func() error {
				found, err := st.FindLanes(ctx, store.FindLanesQuery{Name: bad, Begins: true})
				assert.Empty(t, found)
				return err
			}},
		} {
			err := c.do()
			assert.True(t, err == nil && c.want == nil || c.want != nil && errors.Is(err, c.want), "%s with %q: %v", name, string(bad), err)
		}
	}
}
