package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/store"
)

// person decides a doubt without proof, by looking at the ledger itself: at the executions,
// which no REST API shows. In your program this is an operator, alerted by batch.EventDecision
// or by Record.Decision.
type person struct {
	network  *splintertest.Network
	store    store.Store
	progress *progress
}

func (p *person) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-p.progress.calls:
			if err := p.decide(ctx, e); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// decide looks at the ledger and decides. The claim may have a while to go.
func (p *person) decide(ctx context.Context, e batch.Event) error {
	for {
		// First the record, then the ledger: so the finding is about this attempt, and the
		// decision about no later one.
		seen, err := p.store.Get(ctx, e.Key)
		if err != nil {
			return err
		}
		ruling, found := batch.NotExecutedSendAgain, "is not in it, and nothing is under way: it is sent again"
		if slices.Contains(p.network.Executions(e.Key.Service), e.Key.ID) {
			ruling, found = batch.WasCommitted, "is in it: it is done"
		}
		_, err = p.store.Decide(ctx, seen, ruling, batch.By{Actor: "a person", Reason: "looked at the ledger"})
		switch {
		case errors.Is(err, batch.ErrInDoubt): // its claim has not expired
		case errors.Is(err, batch.ErrMovedOn): // look again, at its present state
		case errors.Is(err, batch.ErrNotAllowed): // it goes on by itself: proof came meanwhile
			return nil
		case err != nil:
			return err
		default:
			p.progress.decided(e.Key, ruling.State())
			p.progress.say("%s/%.12s: %v\n  a person looks at the ledger: it %s", e.Key.Service, e.Key.ID, e.Err, found)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollInterval):
		}
	}
}
