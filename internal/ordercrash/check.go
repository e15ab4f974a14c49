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

// check compares the participant's books with the outcomes of the orders.
func (w *World) check(producers []*producer) {
	t := w.t
	w.broken()
	require.NoError(t, w.ledger.Check(nil))
	books := w.ledger.Balances()
	stored := w.storedOrders()
	n := 0
	for _, p := range producers {
		n += len(p.orders)
		for _, o := range p.orders {
			rec, ok := stored[o.ID]
			if !assert.True(t, ok, "%s is lost", o.ID) {
				continue
			}
			assert.Equal(t, w.finals[o.ID], rec, "what is final stays as it is")
			w.checkOrder(o, rec, books[payee(o.ID)])
		}
		w.checkPlaces(p, stored)
	}
	assert.Len(t, stored, n, "nothing but what was acknowledged")
	w.checkOneAtATime()
	var sum int64
	for _, b := range books {
		sum += b - initialBalance
	}
	assert.Zero(t, sum, "nothing came from nowhere")
	open, _, err := w.st.List(context.Background(), store.ListQuery{Open: true})
	require.NoError(t, err)
	assert.Empty(t, open)
}

const initialBalance = 1_000_000 // the balance of every party at the beginning

func (w *World) storedOrders() map[order.ID]order.Record {
	out := map[order.ID]order.Record{}
	for q := (order.ListQuery{Limit: 1000}); ; {
		found, next, err := w.st.ListOrders(context.Background(), q)
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
		p := w.posts[rec.Batch]
		if assert.NotNil(t, p, "%s is confirmed in %s, which nobody posted", o.ID, rec.Batch) {
			assert.Contains(t, p.to, payee(o.ID), "%s is confirmed in %s", o.ID, rec.Batch)
		}
	case order.Quarantined:
		assert.Zero(t, paid, "%s is quarantined: %+v", o.ID, rec)
		assert.False(t, isAcceptable(o), "%s is quarantined: %s %v", o.ID, o.Payload, rec.Error)
		if p := w.posts[rec.Batch]; p != nil && string(o.Payload) != "no transfer" {
			assert.Equal(t, []string{payee(o.ID)}, p.to, "it was refused alone")
			assert.Positive(t, w.ledger.Count(cantontest.Refused, string(rec.Batch))+w.ledger.Count(cantontest.Rejected, string(rec.Batch)), "it was refused")
		}
	case order.Failed:
		assert.Zero(t, paid, "%s failed: %+v", o.ID, rec)
		assert.False(t, o.Deadline.IsZero() || rec.FinalAt.Before(o.Deadline), "%s failed: %+v", o.ID, rec)
	default:
		assert.Fail(t, "not final", "%+v", rec)
	}
}

// checkPlaces finds orders that took effect before an order that was added earlier. It considers
// only orders that were part of a single batch.
func (w *World) checkPlaces(p *producer, stored map[order.ID]order.Record) {
	place := map[string]int{}
	for _, e := range w.ledger.Journal() {
		if e.Kind == cantontest.Executed && e.Party == string(p.party) {
			for _, to := range w.posts[batch.ID(e.CommandID)].to {
				place[to] = len(place) + 1
			}
		}
	}
	last := 0
	for _, o := range p.orders {
		if rec := stored[o.ID]; rec.State == order.Confirmed && rec.Batches == 1 && rec.Group == "" {
			assert.Greater(w.t, place[payee(o.ID)], last, "%s is out of order", o.ID)
			last = place[payee(o.ID)]
		}
	}
}

// checkOneAtATime finds a command that was posted, or took effect, after the first POST of a
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

// report logs the figures of the run.
func (w *World) report(producers []*producer, killing, all time.Duration) {
	kills, orders, again := 0, 0, 0
	for _, x := range slices.Concat(allWindows(), []Window{anywhere}) {
		w.t.Logf("%4d killed, %s", w.killed[x], x)
		kills += w.killed[x]
	}
	states := map[order.State]int{}
	for _, p := range producers {
		orders += len(p.orders)
		again += p.repeatedCalls
	}
	for _, rec := range w.finals {
		states[rec.State]++
	}
	attempts := 0
	for _, p := range w.posts {
		attempts += len(p.attempts)
	}
	w.t.Logf("%d workers killed in %s; %d orders (%d calls were repeated): %d confirmed, %d failed, %d quarantined; %d batches posted in %d attempts, %d of them too late; %d decided by a person; %s in all",
		kills, killing.Round(time.Millisecond), orders, again, states[order.Confirmed], states[order.Failed], states[order.Quarantined],
		len(w.posts), attempts, w.tooLate, w.decisions, all.Round(time.Millisecond))
}
