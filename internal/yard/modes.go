package main

import (
	"slices"
	"time"
)

// mode is a question that several entries answer. The entries run in turns, and the others are
// compared with the first.
type mode struct {
	name    string
	title   string
	entries []entry
}

// entry is one way to do the work of a mode.
type entry struct {
	label string
	job   job
}

// Sizes of a job unless a mode or a flag says otherwise.
const (
	defaultN     = 20_000
	defaultLanes = 10_000
	payloadSize  = 1536
)

// Labels of entries. The label "ours" alone is Serial over 10,000 lanes.
const (
	pipelined = "ours, Pipelined over 100 lanes" // several batches of a lane are under way
	tuned     = "river tuned"
	nothing   = "nothing else waiting"
	million   = "1,000,000 waiting"
	together  = ", same process"
	apart     = ", another process"
	fourApart = ", four other processes"
	isHeld    = ", a snapshot held"
	isMute    = ", without hints"
	eight     = "eight processes add"
	ownPool   = "pgx's own pool"
	overPgx   = "pgx"
	overPQ    = "lib/pq"
	pooled    = "pgx through PgBouncer"
	onSQLite  = "SQLite"
)

// Settings of a run at a steady pace, unless flags say otherwise.
const (
	defaultPace = 2000
	defaultHold = 2 * time.Minute
	heldRounds  = 3 // at most, because the runs are long
)

func modes() []mode {
	throughput := func(floorStore, store string) []entry {
		return []entry{
			{floor, job{Contender: floor, Store: floorStore}},
			{ours, job{Contender: ours, Store: store}},
			{pipelined, job{Contender: ours, Store: store, Lanes: 100, Pipelined: 32}},
		}
	}
	rival := entry{tuned, job{Contender: river, Store: pgx}}
	late := func(label, contender, store, added string, lanes int) entry {
		processes := map[string]int{apart: 1, fourApart: 4}[added]
		return entry{label + added, job{
			Contender: contender, Store: store, N: lateWarmUpBatches + 100*max(1, processes), Lanes: lanes, Rest: 100 * time.Millisecond, Adders: processes,
		}}
	}
	lates := func(label, store string) []entry {
		return []entry{late(label, ours, store, together, lateWarmUpBatches), late(label, ours, store, apart, lateWarmUpBatches)}
	}
	steady := func(label, contender, store string, held bool) entry {
		e := entry{label, job{Contender: contender, Store: store, Lanes: 400, Pace: defaultPace, Hold: defaultHold, Snapshot: held}}
		if held {
			e.label += isHeld
		}
		return e
	}
	return []mode{
		{"throughput", "PostgreSQL with pgx's own pool", append(throughput(pgx, native), rival)},
		{"throughput-pq", "PostgreSQL with lib/pq", append(throughput(pgx, pq), rival)},
		{"throughput-sqlite", "SQLite, synchronous = FULL", throughput(sqlite, sqlite)},
		{"latency", "An idle queue: from Add until its return, until the POST, and until Await answers", slices.Concat(
			lates(ownPool, native),
			[]entry{late(ownPool+", a new lane each", ours, native, apart, defaultLanes), late(tuned, river, pgx, apart, 0)},
			lates(overPgx, pgx), lates(overPQ, pq), lates(pooled, bouncer), lates(onSQLite, sqlite),
			[]entry{late(onSQLite, ours, sqlite, fourApart, lateWarmUpBatches)},
		)},
		{"hints", "The full run with hints between processes, and without; one process adds and sends, or eight others add", []entry{
			{ours + isMute, job{Contender: ours, Store: native, WithoutHints: true}}, {ours, job{Contender: ours, Store: native}},
			{eight + isMute, job{Contender: ours, Store: native, Adders: 8, WithoutHints: true}}, {eight, job{Contender: ours, Store: native, Adders: 8}},
		}},
		{"backlog", "A process that starts before a backlog, PostgreSQL with pgx", []entry{
			{nothing, job{Contender: ours, Store: pgx}},
			{million, job{Contender: ours, Store: pgx, N: 100_000, Waiting: 1_000_000}},
		}},
		{"held", "A steady pace over 400 lanes, and a transaction that holds a snapshot", []entry{
			steady(ours, ours, native, false), steady(ours, ours, native, true),
			steady(tuned, river, pgx, false), steady(tuned, river, pgx, true),
		}},
	}
}
