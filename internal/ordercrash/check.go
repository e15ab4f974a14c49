package ordercrash

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store"
)

// checkBooks compares the participant's balances with the outcomes of the orders.
func (w *World) checkBooks(producers []*producer) {
	t := w.t
	w.requireNoFailure()
	require.NoError(t, w.ledger.Check(nil))
	books := w.ledger.Balances()
	stored := w.storedOrders()
	n := 0
	for _, p := range producers {
		n += len(p.acknowledged)
		for _, o := range p.acknowledged {
			rec, ok := stored[o.ID]
			if !assert.True(t, ok, "%s is lost", o.ID) {
				continue
			}
			assert.Equal(t, w.finalOrders[o.ID], rec, "what is final stays as it is")
			w.checkOrder(o, rec, books[payee(o.ID)])
		}
		w.checkOrderOfEffects(p, stored)
	}
	assert.Len(t, stored, n, "nothing but what was acknowledged")
	w.checkOneAtATime()
	var sum int64
	for _, b := range books {
		sum += b - initialBalance
	}
	assert.Zero(t, sum, "nothing came from nowhere")
	open, _, err := w.store.List(context.Background(), store.ListQuery{Open: true})
	require.NoError(t, err)
	assert.Empty(t, open)
}

const initialBalance = 1_000_000 // the balance of every party at the beginning

func (w *World) storedOrders() map[order.ID]order.Record {
	out := map[order.ID]order.Record{}
	for q := (order.ListQuery{Limit: 1000}); ; {
		found, next, err := w.store.ListOrders(context.Background(), q)
		require.NoError(w.t, err)
		for _, rec := range found {
			out[rec.ID] = rec
		}
		if q.After = next; next == "" {
			return out
		}
	}
}

// checkOrder compares an order with its payee's balance.
func (w *World) checkOrder(o order.Order, rec order.Record, balance int64) {
	t := w.t
	paid := int64(0)
	if balance != 0 {
		paid = balance - initialBalance
	}
	switch rec.State {
	case order.Confirmed:
		assert.EqualValues(t, 1, paid, "%s is confirmed: %+v", o.ID, rec)
		assert.True(t, isAcceptable(o), "%s is confirmed: %s", o.ID, o.Payload)
		p := w.firstPosts[rec.Batch]
		if assert.NotNil(t, p, "%s is confirmed in %s, which nobody posted", o.ID, rec.Batch) {
			assert.Contains(t, p.payees, payee(o.ID), "%s is confirmed in %s", o.ID, rec.Batch)
		}
	case order.Quarantined:
		assert.Zero(t, paid, "%s is quarantined: %+v", o.ID, rec)
		assert.False(t, isAcceptable(o), "%s is quarantined: %s %v", o.ID, o.Payload, rec.Error)
		if p := w.firstPosts[rec.Batch]; p != nil && string(o.Payload) != "no transfer" {
			assert.Equal(t, []string{payee(o.ID)}, p.payees, "it was refused alone")
			assert.Positive(t, w.ledger.Count(cantontest.Refused, string(rec.Batch))+w.ledger.Count(cantontest.Rejected, string(rec.Batch)), "it was refused")
		}
	case order.Failed:
		assert.Zero(t, paid, "%s failed: %+v", o.ID, rec)
		assert.False(t, o.Deadline.IsZero() || rec.FinalAt.Before(o.Deadline), "%s failed: %+v", o.ID, rec)
	default:
		assert.Fail(t, "not final", "%+v", rec)
	}
}

// checkOrderOfEffects finds orders that took effect before an order that was added earlier. It
// considers only orders that were part of a single batch.
func (w *World) checkOrderOfEffects(p *producer, stored map[order.ID]order.Record) {
	place := map[string]int{}
	for _, e := range w.ledger.Journal() {
		if e.Kind == cantontest.Executed && e.Party == string(p.party) {
			for _, to := range w.firstPosts[batch.ID(e.CommandID)].payees {
				place[to] = len(place) + 1
			}
		}
	}
	last := 0
	for _, o := range p.acknowledged {
		if rec := stored[o.ID]; rec.State == order.Confirmed && rec.Batches == 1 && rec.Group == "" {
			assert.Greater(w.t, place[payee(o.ID)], last, "%s is out of order", o.ID)
			last = place[payee(o.ID)]
		}
	}
}

// checkOneAtATime checks that no command is posted, or takes effect, after the first POST of a
// later command of its party.
func (w *World) checkOneAtATime() {
	over, now := map[string]bool{}, map[string]string{}
	for _, e := range w.ledger.Journal() {
		if e.CommandID == "" {
			continue
		}
		if assert.False(w.t, over[e.CommandID], "%s of %s is %s after %s was posted", e.CommandID, e.Party, e.Kind, now[e.Party]); now[e.Party] != e.CommandID {
			over[now[e.Party]] = now[e.Party] != ""
			now[e.Party] = e.CommandID
		}
	}
}

// logFigures logs the figures of the run.
func (w *World) logFigures(producers []*producer, killing, all time.Duration) {
	kills, orders, again := 0, 0, 0
	for _, x := range slices.Concat(allWindows(), []Window{anyWindow}) {
		w.t.Logf("%4d killed, %s", w.killsByWindow[x], x)
		kills += w.killsByWindow[x]
	}
	states := map[order.State]int{}
	for _, p := range producers {
		orders += len(p.acknowledged)
		again += p.repeatedCalls
	}
	for _, rec := range w.finalOrders {
		states[rec.State]++
	}
	attempts := 0
	for _, p := range w.firstPosts {
		attempts += len(p.attemptNumbers)
	}
	w.t.Logf("%d workers killed in %s; %d orders (%d calls were repeated): %d confirmed, %d failed, %d quarantined; %d batches posted in %d attempts, %d of them too late; %d decided by a person; %s in all",
		kills, killing.Round(time.Millisecond), orders, again, states[order.Confirmed], states[order.Failed], states[order.Quarantined],
		len(w.firstPosts), attempts, w.latePosts, w.decisionCount, all.Round(time.Millisecond))
}
