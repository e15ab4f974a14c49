package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	pgxdriver "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dltbatch/dltbatch/batch"
)

// The settings with which River is fastest here.
const (
	riverWorkers = 200
	riverGroup   = 1000
)

// riverHistory inserts finished jobs, so that the planner has statistics about some.
const riverHistory = `INSERT INTO river.river_job (args, attempt, attempted_at, finalized_at, kind, max_attempts, state, queue, priority, scheduled_at)
	SELECT json_build_object('body', repeat(md5(i::text), 47)), 1, now(), now(), 'post', 25, 'completed', 'default', 1, now() FROM generate_series(1, %d) i`

// riverJob is one job: the POST of a batch. The River contender asks for no statuses.
type riverJob struct {
	Body []byte `json:"body"`
}

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return "post" }

type riverWorker struct {
	riverqueue.WorkerDefaults[riverJob]
	c *client
	w *work
}

// Work implements river.Worker.
func (p *riverWorker) Work(ctx context.Context, j *riverqueue.Job[riverJob]) error {
	if m := p.w.momentsOf(batch.ID(j.Args.Body[:idLen])); m != nil {
		m.posted = p.w.sinceBegin()
	}
	return p.c.post(ctx, j.Args.Body)
}

func runRiver(ctx context.Context, j job, w *work, m *meter, r *result) error {
	d, err := openDatabase(ctx, j)
	if err != nil {
		return err
	}
	defer d.close()
	config, err := pgxpool.ParseConfig(j.DSN)
	if err != nil {
		return err
	}
	config.ConnConfig.DialFunc = d.wire.DialContext
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := d.exec(ctx, `CREATE SCHEMA river`); err != nil {
		return err
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
	tables, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: "river", Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := tables.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if err := d.exec(ctx, fmt.Sprintf(riverHistory, min(20_000, 10*j.Batches))); err != nil {
		return err
	}
	if err := d.settleTables(ctx); err != nil {
		return err
	}
	c := newClient(j.Ledger, 1024)
	defer c.close()
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &riverWorker{c: c, w: w})
	o := &riverqueue.Config{
		Logger: quiet, Schema: "river", Workers: workers,
		Queues:        map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
	}
	queue, err := riverqueue.NewClient(riverpgxv5.New(pool), o)
	if err != nil {
		return err
	}
	events, cancel := queue.SubscribeConfig(&riverqueue.SubscribeConfig{
		ChanSize: j.Batches + 1000, Kinds: []riverqueue.EventKind{riverqueue.EventKindJobCompleted, riverqueue.EventKindJobFailed},
	})
	defer cancel()
	if err := queue.Start(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, warmUpTime); err != nil {
		return err
	}
	failed := make(chan error, 1)
	var completed atomic.Int64
	if j.SteadyTime > 0 {
		s := &steadyRun{database: d, work: w, job: j, notFinalCount: func() int64 { return -completed.Load() }, add: func(ctx context.Context, bs []batch.Batch) error {
			_, err := queue.InsertManyFast(ctx, riverJobs(bs))
			return err
		}}
		go func() { failed <- s.run(ctx, m, r) }()
	} else {
		if err := d.startMeasuring(ctx, m); err != nil {
			return err
		}
		go func() {
			if j.Adders > 0 {
				failed <- w.addInProcesses(ctx, j)
				return
			}
			failed <- riverAddAll(ctx, queue, w)
		}()
	}
	for done := 0; done < j.Batches; {
		select {
		case e := <-events:
			if e.Kind != riverqueue.EventKindJobCompleted {
				return fmt.Errorf("job %d: %s", e.Job.ID, e.Kind)
			}
			if j.RestBetweenAdds == 0 { // notes the time of any batch, whichever it is
				w.momentsByBatch[done].added, w.momentsByBatch[done].final = 0, max(1, int64(time.Since(e.Job.CreatedAt)))
			}
			done++
			completed.Add(1)
		case err := <-failed:
			if failed = nil; err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if failed != nil { // the process that adds may end after the last job, and only then reports the times
		if err := <-failed; err != nil {
			return err
		}
	}
	if j.SteadyTime == 0 {
		if err := d.stopMeasuring(ctx, m, r, j.Batches); err != nil {
			return err
		}
	}
	return queue.Stop(ctx)
}

func riverJobs(bs []batch.Batch) []riverqueue.InsertManyParams {
	jobs := make([]riverqueue.InsertManyParams, len(bs))
	for i, b := range bs {
		jobs[i].Args = riverJob{b.Payload}
	}
	return jobs
}

func riverAddAll(ctx context.Context, queue *riverqueue.Client[pgxdriver.Tx], w *work) error {
	jobs := riverJobs(w.batches)
	for from := 0; from < len(jobs); from += riverGroup {
		if _, err := queue.InsertManyFast(ctx, jobs[from:min(from+riverGroup, len(jobs))]); err != nil {
			return err
		}
	}
	return nil
}

// riverOneByOne inserts each job alone, into an idle queue. A process is not told about the end of
// a job that another process works on, so only the time until the POST counts.
func riverOneByOne(ctx context.Context, j job, w *work) error {
	pool, err := pgxpool.New(ctx, j.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	inserts, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{Schema: "river"})
	if err != nil {
		return err
	}
	for b := range w.batchesOf(j) {
		m := w.momentsOf(b.ID)
		m.added = w.sinceBegin()
		if _, err := inserts.Insert(ctx, riverJob{b.Payload}, nil); err != nil {
			return err
		}
		m.stored = w.sinceBegin()
		if err := sleepAround(ctx, j.RestBetweenAdds); err != nil {
			return err
		}
	}
	return nil
}
