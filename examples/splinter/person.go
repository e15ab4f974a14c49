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

// person decides what no proof was found for, by looking at the ledger itself: at
// what was executed, which no REST API tells. In a program of one's own this is an
// operator, who is told by batch.EventDecision or reads Record.Decision.
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

// decide looks at the ledger and says what it saw. The claim may have a while to go.
func (p *person) decide(ctx context.Context, e batch.Event) error {
	for {
		// First the record, then the ledger: what is seen there is true of this attempt, and
		// the decision is about no later one.
		seen, err := p.store.Get(ctx, e.Key)
		if err != nil {
			return err
		}
		to, found := batch.Unknown, "is not in it, and nothing is under way: it is sent again"
		if slices.Contains(p.network.Executions(e.Key.Service), e.Key.ID) {
			to, found = batch.Committed, "is in it: it is done"
		}
		_, err = p.store.Decide(ctx, seen, to, batch.By{Actor: "a person", Reason: "looked at the ledger"})
		switch {
		case errors.Is(err, batch.ErrInDoubt): // its claim has not expired
		case errors.Is(err, batch.ErrMovedOn): // it is looked at again, as it is now
		case errors.Is(err, batch.ErrNotAllowed): // it goes on by itself: the proof came meanwhile
			return nil
		case err != nil:
			return err
		default:
			p.progress.decided(e.Key, to)
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
