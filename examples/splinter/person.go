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

// person decides a doubt without proof, by reading the executions on the nodes, which no REST API
// shows. In a real program this is an operator, alerted by batch.EventDecision or by
// Record.Decision.
type person struct {
	network  *splintertest.Network
	store    store.Store
	progress *progress
}

func (p *person) decideAll(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-p.progress.decisionEvents:
			if err := p.decide(ctx, e); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// decide reads the ledger and decides. It repeats this until the claim has expired.
func (p *person) decide(ctx context.Context, e batch.Event) error {
	for {
		// The record is read before the ledger, so that the finding is about this attempt and the
		// decision applies to no later one.
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
		case errors.Is(err, batch.ErrInDoubt): // the batch's claim has not expired
		case errors.Is(err, batch.ErrMovedOn): // read again, and decide about the present state
		case errors.Is(err, batch.ErrNotAllowed): // proof came meanwhile, so no decision is needed
			return nil
		case err != nil:
			return err
		default:
			p.progress.noteDecision(e.Key, ruling.State())
			p.progress.printLine("%s/%.12s: %v\n  a person looks at the ledger: it %s", e.Key.Service, e.Key.ID, e.Err, found)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollInterval):
		}
	}
}
