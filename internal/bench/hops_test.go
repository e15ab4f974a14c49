package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// client is the interface of both ledgers' clients.
type client interface {
	dlt.Ledger
	dlt.Checker
	dlt.Resolver
	dlt.EventSource
}

// steps are the stations of a batch on its way through our process.
type steps struct {
	asked    time.Time // the status request whose answer was Committed; zero: an event reported it
	told     time.Time // that answer, or that event
	recorded time.Time
	claimed  time.Time // this batch
	sent     time.Time // handed to the client
}

// tap is a ledger's client, and an Observer, that notes the time of each step.
type tap struct {
	client

	mu        sync.Mutex
	of        map[batch.ID]*steps
	events    []time.Time // events that say "ask now"
	questions int         // status requests
	asked     int         // ids in them
}

func (t *tap) step(id batch.ID) *steps {
	if t.of[id] == nil {
		t.of[id] = &steps{}
	}
	return t.of[id]
}

// told notes that a batch is known to be committed.
func (t *tap) told(statuses []batch.Status, asked time.Time) {
	now := time.Now()
	for _, s := range statuses {
		if x := t.step(s.ID); s.Reported == batch.ReportedCommitted && x.told.IsZero() {
			x.asked, x.told = asked, now
		}
	}
}

func (t *tap) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	asked := time.Now()
	statuses, err := t.client.BatchStatuses(ctx, s, attempts)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.questions++
	t.asked += len(attempts)
	t.told(statuses, asked)
	return statuses, err
}

func (t *tap) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	return t.client.Events(ctx, services, func(e dlt.Event) error {
		t.mu.Lock()
		t.told(e.Statuses, time.Time{})
		if len(e.Statuses) == 0 {
			t.events = append(t.events, time.Now())
		}
		t.mu.Unlock()
		return yield(e)
	})
}

func (t *tap) Submit(ctx context.Context, a batch.Attempt) error {
	t.mu.Lock()
	t.step(a.Key.ID).sent = time.Now()
	t.mu.Unlock()
	return t.client.Submit(ctx, a)
}

func (t *tap) Observe(_ context.Context, e batch.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case batch.EventClaimed:
		t.step(e.Key.ID).claimed = e.At
	case batch.EventFinal:
		t.step(e.Key.ID).recorded = e.At
	}
}

// hop is one part of a hand-over.
type hop string

const (
	hopEvent  hop = "1-event"  // the commit, to the event that says "ask"
	hopAsk    hop = "2-ask"    // from there (without events: from the commit) to the status request
	hopAnswer hop = "3-answer" // to its answer; or the commit to the event that names the batch
	hopRecord hop = "4-record" // to the written outcome
	hopClaim  hop = "5-claim"  // to the claim of the next batch
	hopLoad   hop = "6-load"   // to the client's Submit, with the payload
	hopPost   hop = "7-post"   // to the POST, as the ledger sees it
	hopAll    hop = "all"
)

var hops = []hop{hopEvent, hopAsk, hopAnswer, hopRecord, hopClaim, hopLoad, hopPost, hopAll}

// measured holds the times of each hop.
type measured map[hop][]time.Duration

// handOvers divides each hand-over of a journal into its hops.
func (t *tap) handOvers(journal []moment, service map[batch.ID]batch.ServiceID, streams bool) measured {
	took := measured{}
	type commit struct {
		at time.Time
		id batch.ID
	}
	last := map[batch.ServiceID]commit{}
	for _, m := range journal {
		for _, id := range m.Batches {
			s := service[id]
			if m.Committed {
				last[s] = commit{m.time(), id}
				continue
			}
			c, ok := last[s]
			if !ok {
				continue
			}
			delete(last, s)
			t.add(took, c.at, t.step(c.id), t.step(id), m.time(), streams)
		}
	}
	return took
}

func (t *tap) add(took measured, at time.Time, before, next *steps, posted time.Time, streams bool) {
	from := at
	leg := func(h hop, to time.Time) {
		took[h] = append(took[h], to.Sub(from))
		from = to
	}
	if !before.asked.IsZero() {
		if i, _ := slices.BinarySearchFunc(t.events, at, time.Time.Compare); streams && i < len(t.events) && t.events[i].Before(before.asked) {
			leg(hopEvent, t.events[i])
		}
		leg(hopAsk, before.asked)
	}
	leg(hopAnswer, before.told)
	leg(hopRecord, before.recorded)
	leg(hopClaim, next.claimed)
	leg(hopLoad, next.sent)
	leg(hopPost, posted)
	took[hopAll] = append(took[hopAll], posted.Sub(at))
}

// report makes metrics of the times: the hand-over as p50-ms and p99-ms, and its hops.
func (m measured) report(b *testing.B) {
	require.NotEmpty(b, m[hopAll])
	line := ""
	for _, h := range hops {
		took := m[h]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		ms := func(q int) float64 { return took[(len(took)-1)*q/100].Seconds() * 1000 }
		if h == hopAll {
			b.ReportMetric(ms(50), "p50-ms")
			b.ReportMetric(ms(99), "p99-ms")
			continue
		}
		line += fmt.Sprintf(" %s %.1f/%.1f", h, ms(50), ms(99))
	}
	b.Logf("ms, p50/p99:%s", line)
}

// Traits leaves lists out: the benchmark measures one batch after another.
func (t *tap) Traits(s batch.ServiceID) dlt.Traits {
	x := t.client.Traits(s)
	x.MaxList = 0
	return x
}
