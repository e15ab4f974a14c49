package dltbatch_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// measured measures the claims of a store, and passes all other calls on.
type measured struct {
	store.Store
	took func(time.Duration)
}

func (m measured) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	began := time.Now()
	defer func() { m.took(time.Since(began)) }()
	return m.Store.Claim(ctx, q, choose)
}

// A wrapper of a store has the abilities of the store inside.
func Example_wrappedStore() {
	st := measured{memory.New(), func(time.Duration) {}}
	fmt.Println(len(st.Abilities().Losses()), "lost")
	_, err := st.Claim(context.Background(), store.ClaimQuery{Limit: 1, Window: 1, TTL: time.Minute},
		func(batch.Lane) []batch.Run { return nil })
	fmt.Println(err)
	// Output:
	// 0 lost
	// <nil>
}

// Store is the beginning of an application's own store; examples/toystore has the rest.
type Store struct {
	store.Unimplemented
	// the maps, or the connections to a database
}

// Abilities returns what the store can do beyond the eight methods that every store has.
func (s *Store) Abilities() store.Abilities { return store.CanList | store.CanPrune }
