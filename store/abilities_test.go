package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/store"
)

func TestAbilities(t *testing.T) {
	two := store.CanList | store.CanPrune
	assert.True(t, two.Has(store.CanList))
	assert.True(t, two.Has(two))
	assert.True(t, two.Has(0))
	assert.False(t, two.Has(store.CanList|store.CanCount))
	assert.Equal(t, "store.CanList|store.CanPrune", two.String())
	assert.Equal(t, "none", store.Abilities(0).String())
	assert.Empty(t, store.AllAbilities.Losses())
	lost := (store.AllAbilities &^ two).Losses()
	if assert.Len(t, lost, 2) {
		assert.Equal(t, store.CanList, lost[0].Ability)
		assert.Equal(t, store.Loss{Ability: store.CanPrune, Text: "final batches are kept for ever"}, lost[1])
	}
	all := store.Abilities(0).Losses()
	assert.Equal(t, "store.CanReadFinals", all[0].Ability.String())
	assert.Equal(t, "store.CanHint", all[len(all)-1].Ability.String())
	assert.Equal(t, store.AllAbilities, store.Abilities(1<<len(all)-1))
}
