package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// show is the parent: it adds, kills, restarts, and shows.
type show struct {
	c       config
	j       job
	node    *sawtoothtest.Node
	board   *board
	screen  *screen
	workers []*process
	back    []time.Time // when a killed worker comes back
	begun   time.Time
	added   int
	kills   int
}

func (s *show) run(ctx context.Context, runner *dltbatch.Runner) error {
	s.workers, s.back = make([]*process, s.c.workers), make([]time.Time, s.c.workers)
	defer func() {
		for _, p := range s.workers {
			if p != nil {
				p.kill() // the workers that are left
			}
		}
	}()
	for i := range s.workers {
		if err := s.start(i); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	build, err := newBuilder(s.c.lanes)
	if err != nil {
		return err
	}
	s.begun = time.Now()
	added, ended := make(chan int), make(chan error, 1)
	go func() { ended <- feed(ctx, runner, build, s.c.batches, added) }()
	defer func() { // after an error, too, the feeder reports its end
		cancel()
		<-ended
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-added:
			s.added += n
		case err := <-ended:
			ended <- nil
			if err != nil {
				return err
			}
			if err := s.stop(); err != nil {
				return err
			}
			took := time.Since(s.begun)
			s.screen.end(s.now())
			return prove(s.screen.out, s.node.Journal(), build.built, s.kills, took)
		case <-tick.C:
			if err := s.look(); err != nil {
				return err
			}
		}
	}
}

// feed adds all batches, a few at a time, and waits until all are final.
func feed(ctx context.Context, runner *dltbatch.Runner, build *builder, total int, added chan<- int) error {
	tick := time.NewTicker(addEvery)
	defer tick.Stop()
	steps := min(addSteps, max(10, total/50))
	for i := range steps {
		n := total*(i+1)/steps - len(build.built)
		if n == 0 {
			continue
		}
		batches, err := build.next(n)
		if err != nil {
			return err
		}
		if err := runner.Add(ctx, batches...); err != nil {
			return err
		}
		select {
		case added <- n:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return runner.Idle(ctx)
}

func (s *show) start(i int) error {
	p, err := start(s.j, func(n note) { s.board.hear(i, n) })
	if err != nil {
		return err
	}
	s.workers[i] = p
	s.board.started(i, p.pid())
	return nil
}

// look kills a worker if it is time, restarts dead ones, and shows the state.
func (s *show) look() error {
	for i, p := range s.workers {
		if p == nil {
			if time.Now().After(s.back[i]) {
				if err := s.start(i); err != nil {
					return err
				}
				s.screen.say(time.Since(s.begun), "worker %d is back as process %d", i+1, s.workers[i].pid())
			}
			continue
		}
		select {
		case <-p.ended:
			return p.failed()
		default:
		}
	}
	now := s.now()
	if s.kills < s.c.kills && now.committed >= s.c.batches*(s.kills+1)/(s.c.kills+1) {
		if i := s.board.victim(); i >= 0 {
			pid := s.workers[i].pid()
			s.workers[i].kill()
			s.workers[i], s.back[i] = nil, time.Now().Add(restartAfter)
			s.kills++
			orphans, open := s.board.killed(i)
			s.screen.say(now.elapsed, "kill -9 of worker %d (process %d), with %d batches in its hands, %d of them on their way to the node",
				i+1, pid, orphans, open)
		}
	}
	s.screen.refresh(s.now())
	return nil
}

func (s *show) now() state {
	workers, notices := s.board.look()
	at := time.Since(s.begun)
	for _, n := range notices {
		s.screen.say(at, "%s", n)
	}
	return state{elapsed: at, added: s.added, total: s.c.batches, committed: len(s.node.Chain()), workers: workers}
}

// stop ends the workers as a deployment would.
func (s *show) stop() (err error) {
	for i, p := range s.workers {
		if p != nil {
			if e := p.stop(); e != nil {
				err = errors.Join(err, fmt.Errorf("worker %d: %w", i+1, e))
			}
			s.workers[i] = nil
		}
	}
	return err
}
