package main

import (
	"context"
	"fmt"
	"time"
)

// The contenders.
const (
	contenderOurs   = "ours"
	contenderFloor  = "floor"
	contenderRiver  = "river"
	contenderLoader = "load" // adds batches that wait, and delivers none
)

// The databases and their drivers.
const (
	storeNative  = "native" // pgx's own pool
	storePgx     = "pgx"
	storePQ      = "pq"
	storeBouncer = "bouncer" // pgx's pool, through PgBouncer in transaction mode
	storeSQLite  = "sqlite"
	storeMemory  = "memory"
)

// job describes the work of one process.
type job struct {
	Contender       string
	Store           string
	Batches         int
	Lanes           int
	Pipelined       int           // ours: batches of a lane under way at once; 0 means Serial
	Waiting         int           // batches that wait in the database already: the job adds none, and waits for N of them
	RestBetweenAdds time.Duration // time between batches that are added one by one, each after the end of the one before; 0: all at once
	Adders          int           // number of other processes that add the batches; 0: this process does
	AdderIndex      int           // the index of this process among them
	AddFrom         time.Time     // these processes add nothing before; zero: at once
	WithoutHints    bool          // ours: the store neither sends nor receives hints

	// SteadyTime is the length of the measured part at a steady Pace, in batches per second. If
	// Snapshot is set, another transaction holds a snapshot meanwhile.
	SteadyTime       time.Duration
	BatchesPerSecond float64
	HoldsSnapshot    bool

	ClockZero   time.Time // on the wall clock, which all processes share; zero for the job's own start
	Seed        uint64
	DSN         string // of PostgreSQL
	Bouncer     string // data source name of the same database through PgBouncer
	Dir         string // folder for files of SQLite
	Ledger      string // URL of the fake ledger
	LedgerPID   int
	PostgresPID int
	Profile     string // file for a CPU profile of the process
}

// result has the figures of a job.
type result struct {
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"` // batches a second
	P50     float64 `json:"p50"`  // ms from Add until final
	P99     float64 `json:"p99"`

	// These are set if each batch is added alone, in ms: from the call of Add until its return,
	// until the POST, and until the return of Await; and from the return of Add until the POST.
	Add50      float64 `json:"add50,omitzero"`
	Post50     float64 `json:"post50,omitzero"`
	Post90     float64 `json:"post90,omitzero"`
	Post99     float64 `json:"post99,omitzero"`
	PostMax    float64 `json:"postMax,omitzero"`
	Answer50   float64 `json:"answer50,omitzero"`
	Answer90   float64 `json:"answer90,omitzero"`
	Answer99   float64 `json:"answer99,omitzero"`
	AnswerMax  float64 `json:"answerMax,omitzero"`
	HandOver50 float64 `json:"hand50,omitzero"`
	HandOver99 float64 `json:"hand99,omitzero"`

	CPU        cpuSeconds `json:"cpu"`   // cores
	RoundTrips float64    `json:"trips"` // for each batch, as all below
	WAL        float64    `json:"wal"`   // bytes
	Allocs     float64    `json:"allocs"`
	AllocBytes float64    `json:"allocBytes"`
	PeakRSS    float64    `json:"peakRSS"` // MiB
}

// workMicroseconds returns the CPU time, in microseconds, that a batch costs the three processes
// together. On a shared machine it says more than the rate.
func (r result) workMicroseconds() float64 {
	if r.Rate == 0 {
		return 0
	}
	return (r.CPU.Client + r.CPU.Postgres + r.CPU.Ledger) / r.Rate * 1e6
}

// fields returns pointers to all figures of the result.
func (r *result) fields() []*float64 {
	return []*float64{
		&r.Seconds, &r.Rate, &r.P50, &r.P99,
		&r.Add50, &r.HandOver50, &r.HandOver99, &r.Post50, &r.Post90, &r.Post99, &r.PostMax, &r.Answer50, &r.Answer90, &r.Answer99, &r.AnswerMax,
		&r.CPU.Client, &r.CPU.Postgres, &r.CPU.Ledger,
		&r.RoundTrips, &r.WAL, &r.Allocs, &r.AllocBytes, &r.PeakRSS,
	}
}

// runJob runs a job in this process.
func runJob(ctx context.Context, j job) (r result, err error) {
	c := newClient(j.Ledger, 4)
	defer c.close()
	if _, err := c.resetLedger(ctx); err != nil {
		return r, err
	}
	m := &meter{postgresPID: j.PostgresPID, ledgerPID: j.LedgerPID}
	n := j.Batches
	if j.Waiting > 0 {
		n = 0 // the batches wait in the database already
	}
	var w *work
	if j.SteadyTime > 0 {
		j.Batches, _ = j.steadyCounts()
		w = newSteadyWork(j.Seed, j.Batches, j.Lanes, payloadSize)
	} else {
		w = newWork(j.Seed, n, j.Lanes, payloadSize)
	}
	if j.Adders > 0 {
		w.beganAt = w.beganAt.Round(0) // without the monotonic reading, which only this process has
		j.ClockZero = w.beganAt
	}
	switch j.Contender {
	case contenderOurs:
		err = runOurs(ctx, j, w, m, &r)
	case contenderFloor:
		err = runFloor(ctx, j, w, m, &r)
	case contenderRiver:
		err = runRiver(ctx, j, w, m, &r)
	case contenderLoader:
		return r, runLoad(ctx, j)
	default:
		err = fmt.Errorf("no contender %q", j.Contender)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", j.Contender, err)
	}
	t, err := c.resetLedger(ctx)
	if err != nil {
		return r, err
	}
	if j.Waiting == 0 && (t.Batches != int64(j.Batches) || t.Twice != 0) {
		return r, fmt.Errorf("%s: of %d batches the ledger saw %+v", j.Contender, j.Batches, t)
	}
	if j.Contender == contenderOurs && t.Breaches != 0 {
		return r, fmt.Errorf("%s: %d batches before their turn", j.Contender, t.Breaches)
	}
	if j.SteadyTime > 0 {
		_, warm := j.steadyCounts()
		w.momentsByBatch = w.momentsByBatch[warm:]
	}
	whole := w.deliveryTimes()
	r.P50, r.P99 = milliseconds(percentile(whole, 50)), milliseconds(percentile(whole, 99))
	if j.RestBetweenAdds > 0 {
		w.momentsByBatch = w.momentsByBatch[min(lateWarmUpBatches, j.Batches/6):]
		r.setLateFigures(w)
	}
	return r, nil
}
