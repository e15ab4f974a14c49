package ask

import (
	"sync"

	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/pool"
)

// hands make the requests.
type hands struct {
	*pool.Pool
	o      *Options
	asking sync.WaitGroup // requests under way; they outlast a Run that ends with an error
}

// start lets a hand work in a goroutine. work reports whether its request ran into its time limit.
// start contains a panic; the leases of work's rows then end, and they are asked about again.
func (h *hands) start(hand *pool.Hand, work func() (hung bool)) {
	h.asking.Go(func() {
		hung := true // unless it comes back
		err := loop.Contain(func() error { hung = work(); return nil })
		if hand.Release(hung); err != nil {
			h.o.Trouble(err)
		}
	})
}
