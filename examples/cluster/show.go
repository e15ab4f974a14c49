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

// cluster is the parent process: it adds batches, kills and restarts workers, and shows the state.
type cluster struct {
	config    config
	job       job
	node      *sawtoothtest.Node
	screen    *demo.StatusLine
	workers   []*worker
	troubles  chan string // errors that workers report
	startedAt time.Time
	added     atomic.Int64
	kills     int
}

// worker is the place of a process. A killed process is followed by another in the same place.
type worker struct {
	demo.Process
	ended       <-chan error // nil while no process runs
	restartAt   time.Time    // when the next process starts
	commitCount atomic.Int64 // number of commits written by all processes in this place
}

func (s *cluster) run(ctx context.Context, runner *dltbatch.Runner) error {
	all, err := buildBatches(s.config.batches, s.config.lanes)
	if err != nil {
		return err
	}
	s.startedAt, s.troubles = time.Now(), make(chan string, 100)
	defer func() {
		for _, w := range s.workers {
			if w.ended != nil {
				w.Kill()
			}
		}
	}()
	for i := range s.config.workers {
		w := &worker{}
		w.Job, w.HandleLine = s.job, func(line string) { s.readWorkerLine(i, line) }
		s.workers = append(s.workers, w)
		if err := s.startWorker(i, "has started"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	fed := make(chan error, 1)
	go func() {
		defer close(fed)
		fed <- s.addAll(ctx, runner, all)
	}()
	defer func() { cancel(); <-fed }()
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-fed:
			if err != nil {
				return err
			}
			end := s.statusLine()
			if err := s.stopWorkers(); err != nil {
				return err
			}
			took := time.Since(s.startedAt)
			s.screen.End(end)
			return prove(s.screen.Out, s.node.Journal(), all, s.kills, took)
		case text := <-s.troubles:
			s.printLine("%s", text)
		case <-tick.C:
			if err := s.killAndRestart(); err != nil {
				return err
			}
		}
	}
}

// addAll adds all batches, a few at a time, and waits until all are final.
func (s *cluster) addAll(ctx context.Context, runner *dltbatch.Runner, all []batch.Batch) error {
	steps := min(addSteps, max(10, len(all)/50))
	for i := range steps {
		part := all[len(all)*i/steps : len(all)*(i+1)/steps]
		if err := runner.Add(ctx, part...); err != nil {
			return err
		}
		s.added.Add(int64(len(part)))
		select {
		case <-time.After(addInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return runner.Idle(ctx)
}

func (s *cluster) printLine(format string, args ...any) {
	s.screen.Say(time.Since(s.startedAt), format, args...)
}

// readWorkerLine takes a line that a worker printed.
func (s *cluster) readWorkerLine(i int, line string) {
	if line == committedLine {
		s.workers[i].commitCount.Add(1)
		return
	}
	select {
	case s.troubles <- fmt.Sprintf("worker %d says: %s", i+1, line):
	default: // the channel is full, and more errors are not needed
	}
}

func (s *cluster) startWorker(i int, how string) (err error) {
	w := s.workers[i]
	if w.ended, err = w.Start(); err == nil {
		s.printLine("worker %d %s: process %d", i+1, how, w.PID())
	}
	return err
}

// killAndRestart restarts killed workers, kills one at the planned times while POSTs are under
// way, and shows the state.
func (s *cluster) killAndRestart() error {
	for i, w := range s.workers {
		if w.ended == nil {
			if time.Now().After(w.restartAt) {
				if err := s.startWorker(i, "is back"); err != nil {
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
	flying := countUnansweredPosts(s.node.Journal())
	if s.kills < s.config.kills && flying > 0 && w.ended != nil && len(s.node.Chain()) >= s.config.batches*(s.kills+1)/(s.config.kills+1) {
		w.Kill()
		w.ended, w.restartAt = nil, time.Now().Add(restartAfter)
		s.kills++
		s.printLine("kill -9 of worker %d (process %d), with %d POSTs of all workers on their way", i+1, w.PID(), flying)
	}
	s.screen.Refresh(s.statusLine())
	return nil
}

// countUnansweredPosts returns the number of POSTs that the node has not answered.
func countUnansweredPosts(journal []sawtoothtest.Entry) (n int) {
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

func (s *cluster) statusLine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1f s  %5d added, %5d committed; by worker", time.Since(s.startedAt).Seconds(), s.added.Load(), len(s.node.Chain()))
	for i, w := range s.workers {
		dead := ""
		if w.ended == nil {
			dead = " (dead)"
		}
		fmt.Fprintf(&b, "  %d: %d%s", i+1, w.commitCount.Load(), dead)
	}
	return b.String()
}

// stopWorkers stops the workers as a deployment would: each finishes its work.
func (s *cluster) stopWorkers() (err error) {
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
