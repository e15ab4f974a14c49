package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// What instances have met is named once for all of one reason, with what to do outside.
func TestTroubles(t *testing.T) {
	assert.Empty(t, troubles([]store.Instance{{Name: "a", Live: true}, {Name: "b", Live: true}, {Name: "gone without work"}}))
	all := troubles([]store.Instance{
		{Name: "a", Live: true, Paused: true, PausedKind: batch.KindMisconfigured, PausedWhy: "401"},
		{Name: "b", Live: true, Paused: true, PausedKind: batch.KindMisconfigured, PausedWhy: "401"},
		{Name: "c", Live: true, Paused: true, PausedKind: batch.KindUnavailable, PausedWhy: "refused"},
		{Name: "d", Live: true, Paused: true, PausedKind: batch.KindBusy},
		{Name: "e", Paused: true, PausedKind: batch.KindBusy, Claims: 1, Unseen: time.Minute},
	})
	require.Len(t, all, 4)
	assert.Equal(t, "2 of 4 instances post nothing, a among them: the ledger refuses this client.", all[0].What)
	assert.Equal(t, "401", all[0].Why)
	assert.Contains(t, all[0].Do, "Correct the credentials")
	assert.Contains(t, all[1].Do, "Look whether the ledger runs")
	assert.Contains(t, all[2].Do, "goes on by itself")
	assert.Equal(t, "Instance e has gone, and left 1 batch under way.", all[3].What)
	assert.Contains(t, all[3].Why, "1 min 0 s")

	var many []store.Instance
	for n := range 100 {
		many = append(many, store.Instance{Name: fmt.Sprint(n), Claims: 2}, store.Instance{Name: fmt.Sprint(n), Live: true, Paused: true, PausedWhy: strings.Repeat("x", n)})
	}
	list := troubles(many)
	assert.Len(t, list, homeRows+5+1)
	assert.Contains(t, list[len(list)-1].What, "95 more")
}
