package ask

import (
	"sync"

	"github.com/dltbatch/dltbatch/internal/pool"
)

// hands make the requests.
type hands struct {
	*pool.Pool
	asking sync.WaitGroup // requests under way; they outlast a Run that ends with an error
}

// start lets a hand work in a goroutine. work reports whether its request ran into its time limit.
func (h *hands) start(hand *pool.Hand, work func() (hung bool)) {
	h.asking.Go(func() { hand.Release(work()) })
}
