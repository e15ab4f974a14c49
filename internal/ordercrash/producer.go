package ordercrash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

const (
	partyCount    = 6
	addTimeout    = 3 * time.Second
	maxOpenOrders = 40 // the number of open orders from which on none is added
)

// producer adds the orders of a party in order, and repeats each until it is acknowledged.
type producer struct {
	world         *World
	party         batch.ServiceID
	rng           *rand.Rand
	client        *http.Client
	acknowledged  []order.Order // the acknowledged orders
	repeatedCalls int           // the number of calls that were not acknowledged
}

func (w *World) newProducer(i int) *producer {
	return &producer{
		world: w, party: batch.ServiceID(fmt.Sprintf("Party%d::1220", i)), rng: rand.New(rand.NewPCG(w.options.Seed, uint64(100+i))),
		client: &http.Client{Timeout: 2 * addTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 2}},
	}
}

func (p *producer) addUntilDone(ctx context.Context) {
	defer p.client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(p.rng.IntN(150)) * time.Millisecond):
		}
		p.world.mu.Lock()
		full := len(p.world.openOrders) > maxOpenOrders
		p.world.mu.Unlock()
		if full {
			continue
		}
		var orders []order.Order
		for range 1 + p.rng.IntN(5) {
			orders = append(orders, p.newOrder(len(p.acknowledged)+len(orders)))
		}
		for p.rng.IntN(50) == 0 || !p.addOrders(orders) { // sometimes the call is repeated although it was acknowledged
			p.repeatedCalls++
			if p.world.isOver() {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		p.acknowledged = append(p.acknowledged, orders...)
		p.world.mu.Lock()
		for _, o := range orders {
			p.world.openOrders[o.ID] = true
		}
		p.world.mu.Unlock()
	}
}

func (w *World) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failures) > 0
}

// payee returns the party that an order pays. No other order pays this party, so its balance shows
// how often the order was paid.
func payee(id order.ID) string { return "To-" + string(id) }

// newOrder makes the n-th order of the party. The order of the ids is not the order of adding.
func (p *producer) newOrder(n int) order.Order {
	o := order.Order{ID: order.ID(fmt.Sprintf("%x-%s-%d", p.rng.Uint32(), p.party[:6], n)), Party: p.party, Urgent: p.rng.IntN(8) == 0}
	t := cantontest.Transfer{To: payee(o.ID), Amount: 1, Note: string(o.ID)}
	if n%3 == 0 {
		t.Spends = "holding-" + string(o.ID)
	}
	switch p.rng.IntN(40) {
	case 0, 1:
		t.Poison = cantontest.PoisonAsync
	case 2, 3:
		t.Poison = cantontest.PoisonSync
	case 4:
		o.Payload = []byte("no transfer")
		return o
	case 5, 6, 7:
		o.Deadline = time.Now().Add(time.Duration(p.rng.IntN(1500)) * time.Millisecond).Truncate(time.Microsecond)
	}
	o.Payload, _ = json.Marshal(t) // strings and a number can always be encoded
	return o
}

// isAcceptable reports whether the ledger accepts an order.
func isAcceptable(o order.Order) bool {
	var t cantontest.Transfer
	return json.Unmarshal(o.Payload, &t) == nil && t.Poison == ""
}

// addOrders adds orders through a worker, or directly. It reports whether the call was
// acknowledged.
func (p *producer) addOrders(orders []order.Order) bool {
	at := p.rng.IntN(3)
	if at == 2 {
		ctx, cancel := context.WithTimeout(context.Background(), addTimeout)
		defer cancel()
		return p.wasAcknowledged(p.world.store.AddOrders(ctx, orders...))
	}
	p.world.mu.Lock()
	worker := p.world.workers[at]
	p.world.mu.Unlock()
	if worker == nil || worker.url == "" {
		return false
	}
	body, err := json.Marshal(orders)
	if err != nil {
		return p.wasAcknowledged(err)
	}
	resp, err := p.client.Post(worker.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return false // the worker is dead
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		return true
	}
	if bytes.Contains(said, []byte(batch.ErrConflict.Error())) || resp.StatusCode == http.StatusBadRequest {
		p.world.fail("add %s: %s", orders[0].ID, said)
	}
	return false
}

func (p *producer) wasAcknowledged(err error) bool {
	if errors.Is(err, batch.ErrConflict) || errors.Is(err, batch.ErrInvalidInput) {
		p.world.fail("add: %w", err)
	}
	return err == nil
}
