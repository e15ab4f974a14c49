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
	addEvery     = 100 * time.Millisecond
	lookEvery    = 100 * time.Millisecond
	restartAfter = time.Second
	patience     = 5 * time.Minute // far more than needed
)

// show plays the customers, who add transfers and await their outcomes. It also kills the worker.
type show struct {
	c           config
	all         []transfer
	participant *cantontest.Participant
	service     *service // adds and awaits
	worker      *demo.Process
	screen      *demo.Line

	begun   time.Time
	added   int
	records map[order.ID]order.Record
}

// news is one of three events: orders were added, an order has an outcome, or the run has ended.
type news struct {
	added int
	rec   order.Record
	err   error
}

// run returns the outcomes of all orders.
func (s *show) run(ctx context.Context) (_ map[order.ID]order.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.over+patience)
	var customers sync.WaitGroup
	defer func() { cancel(); customers.Wait() }()
	s.begun, s.records = time.Now(), map[order.ID]order.Record{}
	ended, err := s.start("started")
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := s.worker.Stop(); err == nil {
			err = e
		}
	}()
	all := make(chan news)
	customers.Go(func() { s.feed(ctx, &customers, all) })

	var crashed bool
	var back <-chan time.Time
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for len(s.records) < len(s.all) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d transfers have an outcome, %s has none: %w", len(s.records), len(s.all), s.open(), ctx.Err())
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
			if ended, err = s.start("is back"); err != nil {
				return nil, err
			}
		case <-tick.C:
			s.screen.Refresh(s.now().line())
			if !crashed && s.ripe() {
				crashed = true
				s.crash()
				ended, back = nil, time.After(restartAfter)
			}
		}
	}
	s.screen.End(s.now().line())
	return s.records, nil
}

// open returns the first transfer without an outcome.
func (s *show) open() order.ID {
	for _, t := range s.all {
		if _, final := s.records[t.id]; !final {
			return t.id
		}
	}
	return ""
}

// feed adds all transfers, a few at a time, and starts a goroutine that waits for each.
func (s *show) feed(ctx context.Context, customers *sync.WaitGroup, all chan<- news) {
	send := func(n news) {
		select {
		case all <- n:
		case <-ctx.Done():
		}
	}
	tick := time.NewTicker(addEvery)
	defer tick.Stop()
	steps, added := int(max(1, s.c.over/addEvery)), 0
	for i := range steps {
		chunk := s.all[added : len(s.all)*(i+1)/steps]
		orders := make([]order.Order, len(chunk))
		for k, t := range chunk {
			var err error
			if orders[k], err = t.order(); err != nil {
				send(news{err: err})
				return
			}
		}
		if err := s.service.engine.Add(ctx, orders...); err != nil {
			send(news{err: err})
			return
		}
		added += len(chunk)
		send(news{added: len(chunk)})
		for _, o := range orders {
			customers.Go(func() {
				rec, err := s.service.engine.Await(ctx, o.ID)
				send(news{rec: rec, err: err})
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *show) start(how string) (<-chan error, error) {
	ended, err := s.worker.Start()
	if err == nil {
		s.screen.Say(time.Since(s.begun), "the worker %s: process %d", how, s.worker.PID())
	}
	return ended, err
}

// ripe reports whether to kill the worker now: in the middle of the run, with as many submissions
// in flight as possible.
func (s *show) ripe() bool {
	n := len(s.records)
	return 2*n >= len(s.all) && (4*n >= 3*len(s.all) || 3*inFlight(s.participant.Journal()) >= s.c.parties)
}

// crash kills the worker.
func (s *show) crash() {
	flying := inFlight(s.participant.Journal())
	s.worker.Kill()
	s.screen.Say(time.Since(s.begun), "kill -9 of the worker (process %d), with %d submissions in flight", s.worker.PID(), flying)
}

// inFlight returns how many submissions are on the wire, or have no completion yet.
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

func (s *show) now() state {
	out := state{elapsed: time.Since(s.begun), added: s.added, total: len(s.all)}
	for _, rec := range s.records {
		if rec.State == order.Confirmed {
			out.confirmed++
		} else {
			out.others++
		}
	}
	for _, e := range s.participant.Journal() {
		if e.Kind == cantontest.Posted {
			out.submissions++
		}
	}
	return out
}
