package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// show is the parent process: it adds batches, kills and restarts workers, and shows the state.
type show struct {
	c       config
	j       job
	node    *sawtoothtest.Node
	screen  *demo.Line
	workers []*worker
	said    chan string // errors that workers report
	begun   time.Time
	added   atomic.Int64
	kills   int
}

// worker is the place of a process. A killed process is followed by another in the same place.
type worker struct {
	demo.Process
	ended   <-chan error // nil while no process runs
	back    time.Time    // when the next process starts
	commits atomic.Int64 // number of commits written by all processes in this place
}

func (s *show) run(ctx context.Context, runner *dltbatch.Runner) error {
	all, err := build(s.c.batches, s.c.lanes)
	if err != nil {
		return err
	}
	s.begun, s.said = time.Now(), make(chan string, 100)
	defer func() {
		for _, w := range s.workers {
			if w.ended != nil {
				w.Kill()
			}
		}
	}()
	for i := range s.c.workers {
		w := &worker{}
		w.Job, w.Heard = s.j, func(line string) { s.hear(i, line) }
		s.workers = append(s.workers, w)
		if err := s.start(i, "has started"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	fed := make(chan error, 1)
	go func() {
		defer close(fed)
		fed <- s.feed(ctx, runner, all)
	}()
	defer func() { cancel(); <-fed }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-fed:
			if err != nil {
				return err
			}
			end := s.line()
			if err := s.stop(); err != nil {
				return err
			}
			took := time.Since(s.begun)
			s.screen.End(end)
			return prove(s.screen.Out, s.node.Journal(), all, s.kills, took)
		case text := <-s.said:
			s.say("%s", text)
		case <-tick.C:
			if err := s.look(); err != nil {
				return err
			}
		}
	}
}

// feed adds all batches, a few at a time, and waits until all are final.
func (s *show) feed(ctx context.Context, runner *dltbatch.Runner, all []batch.Batch) error {
	steps := min(addSteps, max(10, len(all)/50))
	for i := range steps {
		part := all[len(all)*i/steps : len(all)*(i+1)/steps]
		if err := runner.Add(ctx, part...); err != nil {
			return err
		}
		s.added.Add(int64(len(part)))
		select {
		case <-time.After(addEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return runner.Idle(ctx)
}

func (s *show) say(format string, args ...any) {
	s.screen.Say(time.Since(s.begun), format, args...)
}

// hear takes a line that a worker printed.
func (s *show) hear(i int, line string) {
	if line == committed {
		s.workers[i].commits.Add(1)
		return
	}
	select {
	case s.said <- fmt.Sprintf("worker %d says: %s", i+1, line):
	default: // the channel is full, and more errors are not needed
	}
}

func (s *show) start(i int, how string) (err error) {
	w := s.workers[i]
	if w.ended, err = w.Start(); err == nil {
		s.say("worker %d %s: process %d", i+1, how, w.PID())
	}
	return err
}

// look restarts killed workers, kills one at the planned times while POSTs are under way, and
// shows the state.
func (s *show) look() error {
	for i, w := range s.workers {
		if w.ended == nil {
			if time.Now().After(w.back) {
				if err := s.start(i, "is back"); err != nil {
					return err
				}
			}
			continue
		}
		select {
		case err := <-w.ended:
			return errors.Join(fmt.Errorf("worker %d ended by itself", i+1), err)
		default:
		}
	}
	i := s.kills % len(s.workers)
	w := s.workers[i]
	flying := posting(s.node.Journal())
	if s.kills < s.c.kills && flying > 0 && w.ended != nil && len(s.node.Chain()) >= s.c.batches*(s.kills+1)/(s.c.kills+1) {
		w.Kill()
		w.ended, w.back = nil, time.Now().Add(restartAfter)
		s.kills++
		s.say("kill -9 of worker %d (process %d), with %d POSTs of all workers on their way", i+1, w.PID(), flying)
	}
	s.screen.Refresh(s.line())
	return nil
}

// posting returns the number of POSTs that the node has not answered.
func posting(journal []sawtoothtest.Entry) (n int) {
	for _, e := range journal {
		switch e.Kind {
		case sawtoothtest.PostStart:
			n++
		case sawtoothtest.PostEnd:
			n--
		}
	}
	return n
}

func (s *show) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1f s  %5d added, %5d committed; by worker", time.Since(s.begun).Seconds(), s.added.Load(), len(s.node.Chain()))
	for i, w := range s.workers {
		dead := ""
		if w.ended == nil {
			dead = " (dead)"
		}
		fmt.Fprintf(&b, "  %d: %d%s", i+1, w.commits.Load(), dead)
	}
	return b.String()
}

// stop ends the workers as a deployment would.
func (s *show) stop() (err error) {
	for i, w := range s.workers {
		if w.ended != nil {
			if e := w.Stop(); e != nil {
				err = errors.Join(err, fmt.Errorf("worker %d: %w", i+1, e))
			}
			w.ended = nil
		}
	}
	return err
}
