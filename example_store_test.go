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
	store.Full
	took func(time.Duration)
}

func (m measured) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	began := time.Now()
	defer func() { m.took(time.Since(began)) }()
	return m.Full.Claim(ctx, q, choose)
}

// A wrapper keeps the abilities of the store inside, or hides them.
func Example_wrappedStore() {
	inner := memory.New()
	for _, st := range []store.Store{
		measured{inner, func(time.Duration) {}},
		struct{ store.Store }{inner},
	} {
		var lost []string
		for _, a := range store.Abilities(st) {
			if !a.Has {
				lost = append(lost, a.Interface)
			}
		}
		fmt.Println(len(lost), "lost")
	}
	_, err := measured{inner, func(time.Duration) {}}.Claim(context.Background(), store.ClaimQuery{Limit: 1, Window: 1, TTL: time.Minute},
		func(batch.Lane) []batch.Run { return nil })
	fmt.Println(err)
	// Output:
	// 0 lost
	// 16 lost
	// <nil>
}
