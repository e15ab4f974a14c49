package storetest

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// storeWithOneMethod has the methods of Delivery, and one method more.
type storeWithOneMethod struct {
	store.Unimplemented
	store.Delivery
	declared store.Abilities
}

func (s storeWithOneMethod) Abilities() store.Abilities { return s.declared }

func (s storeWithOneMethod) Counts(context.Context, store.CountsQuery) ([]store.LaneCounts, error) {
	return nil, nil
}

func (s storeWithOneMethod) Witneses(context.Context, store.Ref, int) ([]batch.ID, error) {
	return nil, nil
}

// The suite finds an ability whose method has a misspelt name, and a method whose ability is not
// declared.
func TestWhatAStoreDeclaresIsThere(t *testing.T) {
	m := memory.New()
	assert.Empty(t, undeclaredDifferences(m))
	assert.Empty(t, undeclaredDifferences(storeWithOneMethod{Delivery: m, declared: store.CanCount}))
	faults := undeclaredDifferences(storeWithOneMethod{Delivery: m, declared: store.CanFindWitnesses})
	require.Len(t, faults, 2)
	assert.Contains(t, faults[0], "Counts is there")
	assert.Contains(t, faults[1], "Witnesses gives ErrUnsupported")
	assert.Len(t, undeclaredDifferences(storeWithOneMethod{Delivery: m, declared: store.CanCount | (store.AllAbilities + 1)}), 1)
}

// The suite calls every method of a store, and each ability has at least one method.
func TestMethods(t *testing.T) {
	none := func(string) batch.Key { return batch.Key{} }
	names := []string{"Abilities", "Owns", "Upkeep"} // these methods belong to no ability
	var can store.Abilities
	for _, m := range abilityMethods(t.Context(), memory.New(), none, nil) {
		names = append(names, m.name)
		can |= m.ability
	}
	var all []string
	for method := range reflect.TypeFor[store.Store]().Methods() {
		all = append(all, method.Name)
	}
	slices.Sort(names)
	assert.Equal(t, all, names)
	assert.Equal(t, store.AllAbilities, can)
}
