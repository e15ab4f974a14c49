package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

const (
	addInterval   = 100 * time.Millisecond
	checkInterval = 100 * time.Millisecond
	restartAfter  = time.Second
	timeoutMargin = 5 * time.Minute // far more time than needed
)

// demonstration plays the customers, who add transfers and await their outcomes. It also kills the
// worker.
type demonstration struct {
	config      config
	transfers   []transfer
	participant *cantontest.Participant
	service     *service // of this process, which adds and awaits
	worker      *demo.Process
	screen      *demo.StatusLine

	startedAt time.Time
	added     int
	records   map[order.ID]order.Record
}

// update is one of three events: orders were added, an order has an outcome, or the run has ended.
type update struct {
	added int
	rec   order.Record
	err   error
}

// run adds the transfers, kills the worker, and returns the outcomes of all orders.
func (s *demonstration) run(ctx context.Context) (_ map[order.ID]order.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.addPeriod+timeoutMargin)
	var customers sync.WaitGroup
	defer func() { cancel(); customers.Wait() }()
	s.startedAt, s.records = time.Now(), map[order.ID]order.Record{}
	ended, err := s.startWorker("started")
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := s.worker.Stop(); err == nil {
			err = e
		}
	}()
	all := make(chan update)
	customers.Go(func() { s.addAll(ctx, &customers, all) })

	var crashed bool
	var back <-chan time.Time
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for len(s.records) < len(s.transfers) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d transfers have an outcome, %s has none: %w", len(s.records), len(s.transfers), s.firstOpen(), ctx.Err())
		case err := <-ended:
			return nil, fmt.Errorf("the worker ended by itself: %w", err)
		case n := <-all:
			if n.err != nil {
				return nil, n.err
			}
			s.added += n.added
			if n.rec.ID != "" {
				s.records[n.rec.ID] = n.rec
			}
		case <-back:
			back = nil
			if ended, err = s.startWorker("is back"); err != nil {
				return nil, err
			}
		case <-tick.C:
			s.screen.Refresh(s.progress().line())
			if !crashed && s.isTimeToKill() {
				crashed = true
				s.killWorker()
				ended, back = nil, time.After(restartAfter)
			}
		}
	}
	s.screen.End(s.progress().line())
	return s.records, nil
}

// firstOpen returns the first transfer without an outcome.
func (s *demonstration) firstOpen() order.ID {
	for _, t := range s.transfers {
		if _, final := s.records[t.id]; !final {
			return t.id
		}
	}
	return ""
}

// addAll adds all transfers, a few at a time, and starts a goroutine that waits for each.
func (s *demonstration) addAll(ctx context.Context, customers *sync.WaitGroup, all chan<- update) {
	send := func(n update) {
		select {
		case all <- n:
		case <-ctx.Done():
		}
	}
	tick := time.NewTicker(addInterval)
	defer tick.Stop()
	steps, added := int(max(1, s.config.addPeriod/addInterval)), 0
	for i := range steps {
		chunk := s.transfers[added : len(s.transfers)*(i+1)/steps]
		orders := make([]order.Order, len(chunk))
		for k, t := range chunk {
			var err error
			if orders[k], err = t.order(); err != nil {
				send(update{err: err})
				return
			}
		}
		if err := s.service.engine.Add(ctx, orders...); err != nil {
			send(update{err: err})
			return
		}
		added += len(chunk)
		send(update{added: len(chunk)})
		for _, o := range orders {
			customers.Go(func() {
				rec, err := s.service.engine.Await(ctx, o.ID)
				send(update{rec: rec, err: err})
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *demonstration) startWorker(how string) (<-chan error, error) {
	ended, err := s.worker.Start()
	if err == nil {
		s.screen.Say(time.Since(s.startedAt), "the worker %s: process %d", how, s.worker.PID())
	}
	return ended, err
}

// isTimeToKill reports whether to kill the worker now: in the middle of the run, with as many
// submissions in flight as possible.
func (s *demonstration) isTimeToKill() bool {
	n := len(s.records)
	return 2*n >= len(s.transfers) && (4*n >= 3*len(s.transfers) || 3*inFlight(s.participant.Journal()) >= s.config.parties)
}

// killWorker kills the worker.
func (s *demonstration) killWorker() {
	flying := inFlight(s.participant.Journal())
	s.worker.Kill()
	s.screen.Say(time.Since(s.startedAt), "kill -9 of the worker (process %d), with %d submissions in flight", s.worker.PID(), flying)
}

// inFlight returns how many submissions are under way, or have no completion yet.
func inFlight(journal []cantontest.Entry) int {
	open := map[string]bool{}
	for _, e := range journal {
		switch e.Kind {
		case cantontest.Posted:
			open[e.SubmissionID] = true
		case cantontest.Refused, cantontest.Executed, cantontest.Rejected, cantontest.Forgotten:
			delete(open, e.SubmissionID)
		}
	}
	return len(open)
}

func (s *demonstration) progress() progressState {
	out := progressState{elapsed: time.Since(s.startedAt), added: s.added, total: len(s.transfers)}
	for _, rec := range s.records {
		if rec.State == order.Confirmed {
			out.confirmed++
		} else {
			out.quarantined++
		}
	}
	for _, e := range s.participant.Journal() {
		if e.Kind == cantontest.Posted {
			out.submissions++
		}
	}
	return out
}
