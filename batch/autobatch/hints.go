package autobatch

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/hints"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// newHints returns the node that sends hints to other processes and receives theirs.
func (c *orderCore) newHints() *hints.Node {
	return hints.New(hints.Options{
		Store: c.orders, Timeout: c.options.StoreTimeout,
		Changed: func(t store.Topics, before, now hints.State) { hints.Log(c.options.Logger, t, before, now) },
	})
}

// Hints tells whether this Engine gets hints that another process has added orders. Without hints
// it finds them by its regular looks (Options.BatchInterval). Before Run and after it, no hints
// arrive.
func (e *Engine) Hints() health.Hints { return health.Hints(e.hintNode.State(store.TopicOrders)) }

// orderHash returns the number that stands for an order in hints.
func orderHash(id order.ID) uint64 { return store.KeyHash(string(id)) }

// tellOrders tells the processes that make batches that orders wait.
func (c *orderCore) tellOrders() { c.hintNode.Tell(store.Hint{WholeTopics: store.TopicOrders}) }

// tellLane tells the processes that deliver that a party has a new batch.
func (c *orderCore) tellLane(party batch.ServiceID) {
	c.hintNode.Tell(store.Hint{Lanes: []batch.ServiceID{party}})
}

// tellFinals tells other processes that orders are final, if some process waits for such hints.
func (c *orderCore) tellFinals(ids []order.ID) {
	if len(ids) == 0 || !c.hintNode.Wanted(store.TopicOrderFinals) {
		return
	}
	h := store.Hint{OrderFinals: make([]uint64, len(ids))}
	for i, id := range ids {
		h.OrderFinals[i] = orderHash(id)
	}
	c.hintNode.Tell(h)
}

// hearFinals calls heard with the hashes of orders that other processes settled, until ctx is
// done. It calls look when hints may have been missed.
func (c *orderCore) hearFinals(ctx context.Context, heard func(hashes []uint64, many bool), look func()) {
	c.hintNode.Hear(ctx, store.TopicOrderFinals, func(h store.Hint) { heard(h.OrderFinals, h.WholeTopics.Has(store.TopicOrderFinals)) }, look)
}

// hearOrders looks for idle parties when another process tells that orders wait, until ctx is
// done.
func (e *Engine) hearOrders(ctx context.Context) error {
	look := func() { loop.Poke(e.findParties) }
	e.hintNode.Hear(ctx, store.TopicOrders, func(store.Hint) { look() }, look)
	<-ctx.Done() // Hear returns earlier on a store without hints
	return nil
}

// hearOutcomes reads verdicts when another process tells of final batches, until ctx is done. It
// need not do so if a Runner of this process reports to this Engine: then each process with a
// Runner has an Engine, too, which settles the batches that its Runner has finished.
func (e *Engine) hearOutcomes(ctx context.Context) error {
	hearing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-e.outcomesObserved:
			stop()
		case <-hearing.Done():
		}
	}()
	read := func() { loop.Poke(e.settler.readVerdicts) }
	e.hintNode.Hear(hearing, store.TopicFinals, func(store.Hint) { read() }, read)
	<-ctx.Done()
	return nil
}
