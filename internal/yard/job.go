package main

import (
	"context"
	"fmt"
	"time"
)

// The contenders.
const (
	ours  = "ours"
	floor = "floor"
	river = "river"
	posts = "posts" // only the POSTs
	load  = "load"  // adds batches that wait, and delivers none
)

// The databases and their drivers.
const (
	native       = "native" // pgx's own pool
	pgx          = "pgx"
	pq           = "pq"
	sqliteFull   = "sqlite-full"
	sqliteNormal = "sqlite-normal"
	inMemory     = "memory"
)

// job is the work of one process.
type job struct {
	Contender string
	Store     string // native, pgx, pq, sqlite-full or sqlite-normal
	N         int
	Lanes     int
	Together  int // batches of a lane that are added one after the other; 0 is one
	Size      int // bytes of a payload
	Workers   int // goroutines that post at once, if the contender lets one set it; 0 is its own default

	Pipelined int           // ours: batches of a lane under way at once; 0 is Serial
	List      int           // ours: batches in a POST, at most; 0 is one
	Events    bool          // ours: gets events of commits, beside asking
	Instances int           // ours: instances that share the database
	Ordered   bool          // floor: batches of a lane one after the other
	Tuned     bool          // river: fetches as often as it can
	Stages    bool          // ours: counts the allocations of each stage, which takes time
	Idle      time.Duration // on a vacuumed table, before the first batch is added
	Pace      float64       // batches added a second; 0 is as many as possible
	Block     time.Duration // of the ledger, which commits at the end of each block; 0 is at once
	Waiting   int           // batches that wait in the database already: the job adds none, and awaits N of them

	// Hold is the length of the measured part at a steady Pace, and Beside the other use of
	// the database meanwhile.
	Hold     time.Duration
	Beside   string
	Parallel bool // ours: no batches conflict

	Seed           uint64
	GOGC           int    // 0 is the contender's own
	DSN            string // of PostgreSQL
	Dir            string // for files of SQLite
	Ledger         string // URL of the fake ledger
	LedgerPID      int
	PostgresPID    int
	Profile, Trace string // files for profiles of the process
}

// result holds the figures of a job.
type result struct {
	Seconds    float64              `json:"seconds"`
	Rate       float64              `json:"rate"` // batches a second
	P50        float64              `json:"p50"`  // ms from Add until final
	P99        float64              `json:"p99"`
	Hand50     float64              `json:"hand50"` // ms from the ledger's commit to the POST of the lane's next batch
	Hand99     float64              `json:"hand99"`
	Next50     float64              `json:"next50"` // ms from the record of the commit to the POST of the lane's next batch
	Next99     float64              `json:"next99"`
	CPU        shares               `json:"cpu"`        // cores
	Statements float64              `json:"statements"` // for each batch, as all below
	Trips      float64              `json:"trips"`
	WAL        float64              `json:"wal"` // bytes
	HOT        float64              `json:"hot"` // of all updates, the share that stayed in their page and wrote no index
	Posts      float64              `json:"posts"`
	Asks       float64              `json:"asks"`
	Allocs     float64              `json:"allocs"`
	AllocBytes float64              `json:"allocBytes"`
	PeakRSS    float64              `json:"peakRSS"`  // MiB
	Stages     [len(stages)]float64 `json:"stages"`   // allocations by stage; if the job counts them
	FirstRSS   float64              `json:"firstRSS"` // MiB, after the first fifth; ours only
}

// work is the CPU that a batch costs the three processes together, in microseconds. On a
// machine that others use, too, it says more than the rate.
func (r result) work() float64 {
	if r.Rate == 0 {
		return 0
	}
	return (r.CPU.Client + r.CPU.Postgres + r.CPU.Ledger) / r.Rate * 1e6
}

// fields returns all figures.
func (r *result) fields() []*float64 {
	all := []*float64{
		&r.Seconds, &r.Rate, &r.P50, &r.P99, &r.Hand50, &r.Hand99, &r.Next50, &r.Next99,
		&r.CPU.Client, &r.CPU.Postgres, &r.CPU.Ledger, &r.CPU.Machine,
		&r.Statements, &r.Trips, &r.WAL, &r.HOT, &r.Posts, &r.Asks, &r.Allocs, &r.AllocBytes, &r.PeakRSS, &r.FirstRSS,
	}
	for i := range r.Stages {
		all = append(all, &r.Stages[i])
	}
	return all
}

// run runs a job in this process.
func run(ctx context.Context, j job) (r result, err error) {
	c := newClient(j.Ledger, 4)
	defer c.close()
	if _, err := c.reset(ctx, j.Block); err != nil {
		return r, err
	}
	m := &meter{postgres: j.PostgresPID, ledger: j.LedgerPID}
	n := j.N
	if j.Waiting > 0 {
		n = 0 // the batches wait in the database already
	}
	var w *work
	if j.Hold > 0 {
		j.N, _ = j.steadyN()
		w = newSteadyWork(j.Seed, j.N, j.Lanes, j.Together, j.Size)
		w.apart = j.Parallel
	} else {
		w = newWork(j.Seed, n, j.Lanes, j.Together, j.Size)
	}
	switch j.Contender {
	case ours:
		err = runOurs(ctx, j, w, m, &r)
	case floor:
		err = runFloor(ctx, j, w, m, &r)
	case river:
		err = runRiver(ctx, j, w, m, &r)
	case posts:
		err = runPosts(ctx, j, w, m, &r)
	case load:
		return r, runLoad(ctx, j)
	default:
		err = fmt.Errorf("no contender %q", j.Contender)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", j.Contender, err)
	}
	t, err := c.reset(ctx, 0)
	if err != nil {
		return r, err
	}
	if j.Waiting == 0 && (t.Batches != int64(j.N) || t.Twice != 0) {
		return r, fmt.Errorf("%s: of %d batches the ledger saw %+v", j.Contender, j.N, t)
	}
	if ordered := j.Contender == ours && !j.Parallel || j.Ordered; ordered && t.Breaches != 0 {
		return r, fmt.Errorf("%s: %d batches before their turn", j.Contender, t.Breaches)
	}
	if j.Hold > 0 {
		_, warm := j.steadyN()
		w.moments = w.moments[warm:] // a steady run measures no hand-over of lanes
		w.lanes = len(w.moments)
	}
	r.Posts, r.Asks = float64(t.Posts)/float64(t.Batches), float64(t.Asks)/float64(t.Batches)
	whole, fromAccepted, fromFinal := w.waits()
	r.P50, r.P99 = ms(percentile(whole, 50)), ms(percentile(whole, 99))
	r.Hand50, r.Hand99 = ms(percentile(fromAccepted, 50)), ms(percentile(fromAccepted, 99))
	r.Next50, r.Next99 = ms(percentile(fromFinal, 50)), ms(percentile(fromFinal, 99))
	return r, nil
}
