package evm

import (
	"cmp"
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

const opEvents = "events"

const (
	// headTimeout is the time limit of one question for a head.
	headTimeout = 5 * time.Second
	// maxHeadsBelow is how many lower answers in a row show that the highest number was wrong.
	maxHeadsBelow = 8
	// defaultHeadInterval applies if Events is called without Options.HeadInterval.
	defaultHeadInterval = time.Second
)

// Events implements [dlt.Ledger], which the engine uses where Options.HeadInterval is set. It
// asks for the number of the last block, first the node for submissions and then the fallbacks,
// and each higher number is one event without statuses: everything under way is asked about
// together. Several numbers at once are one event. A lower number is no event, since the nodes
// behind one address differ in their heads. Where no answer for some time comes up to the highest
// number, that one was wrong, and the others count again. With Options.HeadSocket the node tells
// of new blocks, and is asked only where it has told of none for Options.HeadInterval. It ignores
// services. The stream ends with a [*dlt.Error] when no node answers.
func (c *Client) Events(ctx context.Context, _ []batch.ServiceID, yield func(dlt.Event) error) error {
	interval := cmp.Or(c.options.HeadInterval, defaultHeadInterval)
	listening, stop := context.WithCancel(ctx)
	socket := c.listen(listening, interval)
	defer socket.reader.Wait()
	defer stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last uint64
	below := 0 // how many answers in a row were below last
	head, err := c.askHead(ctx)
	for live := true; ; {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case live || head > last || below >= maxHeadsBelow:
			if err := yield(dlt.Event{Live: live}); err != nil {
				return err
			}
			live, last, below = false, head, 0
		case head < last:
			below++
		default:
			below = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case head = <-socket.heads:
			tick.Reset(interval)
		case <-tick.C:
			if head, err = c.askHead(ctx); err == nil {
				socket.noteHead(head)
			}
		}
	}
}

// askHead asks the nodes for the number of their last block until one answers.
func (c *Client) askHead(ctx context.Context) (head uint64, err error) {
	for _, e := range c.endpointsInTurn() {
		if head, err = c.askHeadOf(ctx, e); err == nil || ctx.Err() != nil {
			break
		}
		if isEndpointsFault(ctx, err) {
			c.putAside(e, err)
		}
	}
	return head, err
}

func (c *Client) askHeadOf(ctx context.Context, e *endpoint) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	answers, err := c.ask(ctx, opEvents, e, []request{{"eth_blockNumber", nil}})
	if err != nil {
		return 0, dlt.At(e.shownAddress, c.asLedgerError(opEvents, err))
	}
	head, err := decodeNumber(answers[0])
	if err != nil {
		return 0, &dlt.Error{Op: opEvents, Kind: kindOfAny(answers), Endpoint: e.shownAddress, Message: c.shownText("last block: " + err.Error())}
	}
	return head, nil
}
