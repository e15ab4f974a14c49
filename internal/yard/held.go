package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	pgxdriver "github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/batch"
)

const (
	addsPerSecond   = 50              // Adds per second
	heldRetention   = time.Minute     // so short that the disk suffices
	heldWarmUpShare = 4               // the warm-up takes a quarter of the time, or
	maxHeldWarmUp   = 2 * time.Minute // this time if it is shorter: tables and retention are then steady
	minFreeBytes    = int64(2 << 30)  // bytes that stay free on the disk
)

// bytesPerHeldBatch is how many bytes a batch leaves on the disk while the server cannot clean up,
// without its payload: rows, their dead versions, and index entries.
const bytesPerHeldBatch = 2500

// steadyRun sends batches at a steady pace: first for a warm-up, and then, if the job says so,
// while another transaction holds a snapshot. Only batches added in the second part count.
type steadyRun struct {
	*database
	work          *work
	job           job
	add           func(ctx context.Context, bs []batch.Batch) error
	notFinalCount func() int64 // returns the number of batches that are not final
}

// steadyCounts returns how many batches a run has, and how many of these are its warm-up.
func (j job) steadyCounts() (all, warm int) {
	warm = int(j.BatchesPerSecond * min(j.SteadyTime/heldWarmUpShare, maxHeldWarmUp).Seconds())
	return warm + int(j.BatchesPerSecond*j.SteadyTime.Seconds()), warm
}

func (s *steadyRun) run(ctx context.Context, m *meter, r *result) error {
	all, warm := s.job.steadyCounts()
	if err := s.requireDiskSpace(ctx, all); err != nil {
		return err
	}
	if err := s.addAtPace(ctx, 0, warm); err != nil {
		return err
	}
	if s.job.HoldsSnapshot {
		release, err := s.holdSnapshot(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := s.startMeasuring(ctx, m); err != nil {
		return err
	}
	left := s.notFinalCount()
	if err := s.addAtPace(ctx, warm, all); err != nil {
		return err
	}
	return s.stopMeasuring(ctx, m, r, int(left-s.notFinalCount()))
}

// addAtPace adds batches at the pace. If an Add took long, it adds faster until it is on time
// again.
func (s *steadyRun) addAtPace(ctx context.Context, from, to int) error {
	began := time.Now()
	group := int(s.job.BatchesPerSecond / addsPerSecond)
	for n := from; n < to; {
		if err := sleep(ctx, time.Until(began.Add(time.Duration(float64(n-from)/s.job.BatchesPerSecond*float64(time.Second))))); err != nil {
			return err
		}
		bs := make([]batch.Batch, min(max(1, group), to-n))
		for i := range bs {
			bs[i] = s.work.newBatch(n+i, make([]byte, s.work.size))
			s.work.momentsByBatch[n+i].added = s.work.sinceBegin()
		}
		if err := s.add(ctx, bs); err != nil {
			return err
		}
		n += len(bs)
	}
	return nil
}

// holdSnapshot opens a transaction that holds a snapshot until release is called.
func (s *steadyRun) holdSnapshot(ctx context.Context) (release func(), err error) {
	c, err := pgxdriver.Connect(ctx, s.job.DSN)
	if err != nil {
		return nil, err
	}
	release = func() { _ = c.Close(context.WithoutCancel(ctx)) } // closing the connection ends the transaction
	for _, q := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT 1 FROM pg_class LIMIT 1`} {
		if _, err := c.Exec(ctx, q); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// requireDiskSpace returns an error if the run might fill the disk of the server, if the server is
// on this machine.
func (s *steadyRun) requireDiskSpace(ctx context.Context, n int) error {
	var dir string
	if err := s.adminConn.QueryRow(ctx, `SELECT current_setting('data_directory')`).Scan(&dir); err != nil {
		return err
	}
	var fs syscall.Statfs_t
	if s.job.PostgresPID == 0 || syscall.Statfs(dir, &fs) != nil {
		return nil // the server is on another machine
	}
	free, want := int64(fs.Bavail)*fs.Bsize, int64(n)*int64(payloadSize+bytesPerHeldBatch)+minFreeBytes
	if free < want {
		return fmt.Errorf("%d MB are free in %s, want %d for %d batches under a held snapshot", free>>20, dir, want>>20, n)
	}
	return nil
}
