package main

import "time"

// mode is a question; entries that take turns answer it. The others are compared with the
// first entry.
type mode struct {
	name    string
	title   string
	entries []entry
}

// entry is one way to run the mode's work.
type entry struct {
	label string
	job   job
	// half runs the entry at half of the rate that the first entry reached.
	half bool
}

// Sizes of a job unless a mode or a flag says otherwise.
const (
	defaultN     = 20_000
	defaultLanes = 10_000
	defaultSize  = 1536
)

// pipelined is the label of ours over 100 lanes with several batches of a lane under way. The
// label "ours" alone is Serial over 10,000 lanes.
const pipelined = "ours, Pipelined over 100 lanes"

// Settings of a steady run, unless flags say otherwise.
const (
	defaultPace = 2000
	defaultHold = 2 * time.Minute
	heldRounds  = 3 // at most: the runs are long
)

// Labels of the modes held.
const (
	without = "without"
	with    = "with"
)

// held is a job at a steady pace, with the other use of the database and without.
func held(name, title, beside string, j job) mode {
	j.Pace, j.Hold = defaultPace, defaultHold
	b := j
	b.Beside = beside
	return mode{name, title, []entry{{label: without, job: j}, {label: with, job: b}}}
}

func modes() []mode {
	floorOn := func(store string) entry { return entry{label: floor, job: job{Contender: floor, Store: store}} }
	pipelinedOn := func(store string) entry {
		return entry{label: pipelined, job: job{Contender: ours, Store: store, Lanes: 100, Pipelined: 32}}
	}
	oursOn := func(store string) entry { return entry{label: ours, job: job{Contender: ours, Store: store}} }
	tuned := entry{label: "river tuned", job: job{Contender: river, Store: pgx, Tuned: true}}
	return []mode{
		{"pgx", "PostgreSQL with pgx", []entry{
			floorOn(pgx), oursOn(pgx), pipelinedOn(pgx), tuned,
			{label: "river", job: job{Contender: river, Store: pgx}},
			{label: "POSTs alone", job: job{Contender: posts}},
		}},
		{"native", "PostgreSQL with pgx's own pool", []entry{floorOn(pgx), oursOn(native), pipelinedOn(native), tuned}},
		{"pq", "PostgreSQL with lib/pq", []entry{floorOn(pgx), oursOn(pq), pipelinedOn(pq), tuned}},
		{"sqlite-full", "SQLite, synchronous = FULL", []entry{floorOn(sqliteFull), oursOn(sqliteFull), pipelinedOn(sqliteFull)}},
		{"sqlite-normal", "SQLite, synchronous = NORMAL", []entry{floorOn(sqliteNormal), oursOn(sqliteNormal), pipelinedOn(sqliteNormal)}},
		{"burst", "A burst after 60 s idle on vacuumed tables", []entry{
			{label: "ours, warm", job: job{Contender: ours, Store: pgx}},
			{label: "ours, after idling", job: job{Contender: ours, Store: pgx, Idle: time.Minute}},
			{label: "ours with lib/pq, warm", job: job{Contender: ours, Store: pq}},
			{label: "ours with lib/pq, after idling", job: job{Contender: ours, Store: pq, Idle: time.Minute}},
			// These show how much the machine itself loses by idling.
			{label: "POSTs alone", job: job{Contender: posts}},
			{label: "POSTs alone, after idling", job: job{Contender: posts, Idle: time.Minute}},
		}},
		{"order", "Lane order over 100 lanes", []entry{
			{label: "floor in lane order", job: job{Contender: floor, Store: pgx, Lanes: 100, Ordered: true}},
			{label: "ours, Serial", job: job{Contender: ours, Store: pgx, Lanes: 100}},
			{label: "ours, Pipelined(32)", job: job{Contender: ours, Store: pgx, Lanes: 100, Pipelined: 32}},
			{label: "ours, Pipelined(32), 1 lane", job: job{Contender: ours, Store: pgx, Lanes: 1, Pipelined: 32, N: 2_000}},
			{label: "ours, Serial, events", job: job{Contender: ours, Store: pgx, Lanes: 100, Events: true}},
		}},
		{"lanes", "Lanes", []entry{
			{label: "100 lanes", job: job{Contender: ours, Store: pgx, Lanes: 100, N: 100_000}},
			{label: "1 lane", job: job{Contender: ours, Store: pgx, Lanes: 1, N: 500}},
			{label: "10,000 lanes", job: job{Contender: ours, Store: pgx, Lanes: 10_000, N: 100_000}},
			{label: "100,000 lanes of one", job: job{Contender: ours, Store: pgx, Lanes: 100_000, N: 100_000}},
		}},
		{"size", "Size of a payload", []entry{
			{label: "floor, 1 KB", job: job{Contender: floor, Store: pgx, Size: 1 << 10}},
			{label: "ours, 1 KB", job: job{Contender: ours, Store: pgx, Size: 1 << 10}},
			{label: "floor, 4 KB", job: job{Contender: floor, Store: pgx, Size: 4 << 10}},
			{label: "ours, 4 KB", job: job{Contender: ours, Store: pgx, Size: 4 << 10}},
			{label: "floor, 16 KB", job: job{Contender: floor, Store: pgx, Size: 16 << 10}},
			{label: "ours, 16 KB", job: job{Contender: ours, Store: pgx, Size: 16 << 10}},
		}},
		{"count", "Number of batches", []entry{
			{label: "floor, 20,000", job: job{Contender: floor, Store: pgx, N: 20_000}},
			{label: "ours, 20,000", job: job{Contender: ours, Store: pgx, N: 20_000}},
			{label: "floor, 100,000", job: job{Contender: floor, Store: pgx, N: 100_000}},
			{label: "ours, 100,000", job: job{Contender: ours, Store: pgx, N: 100_000}},
		}},
		{"lists", "Lists of up to 100 batches a POST", []entry{
			floorOn(pgx),
			{label: "ours, lists", job: job{Contender: ours, Store: native, Lanes: 100, Pipelined: 100, List: 100}},
			{label: "ours, one a POST", job: job{Contender: ours, Store: native, Lanes: 100, Pipelined: 100}},
			{label: "ours, lists, lib/pq", job: job{Contender: ours, Store: pq, Lanes: 100, Pipelined: 100, List: 100}},
		}},
		{"blocks", "A ledger that commits in blocks", []entry{
			{label: "floor, at once", job: job{Contender: floor, Store: pgx}},
			{label: "floor, 1 s", job: job{Contender: floor, Store: pgx, Block: time.Second}},
			{label: "ours, at once", job: job{Contender: ours, Store: native, Events: true}},
			{label: "ours, 100 ms", job: job{Contender: ours, Store: native, Events: true, Block: 100 * time.Millisecond}},
			{label: "ours, 1 s", job: job{Contender: ours, Store: native, Events: true, Block: time.Second}},
			{label: "ours, 1 s, asking", job: job{Contender: ours, Store: native, Block: time.Second}},
			{label: "ours, Pipelined(32) over 100 lanes, 100 ms", job: job{Contender: ours, Store: native, Lanes: 100, Pipelined: 32, Events: true, Block: 100 * time.Millisecond}},
			{label: "ours, Pipelined(32) over 100 lanes, 1 s", job: job{Contender: ours, Store: native, Lanes: 100, Pipelined: 32, Events: true, Block: time.Second}},
		}},
		{"instances", "Instances on one database", []entry{
			{label: "one", job: job{Contender: ours, Store: native}},
			{label: "two", job: job{Contender: ours, Store: native, Instances: 2}},
			{label: "three", job: job{Contender: ours, Store: native, Instances: 3}},
		}},
		{"handover", "Hand-over of a lane at half of the full rate, over 100 lanes and over 10,000", []entry{
			{label: "full rate", job: job{Contender: ours, Store: native}},
			{label: "half of it", job: job{Contender: ours, Store: native, Lanes: 100}, half: true},
			{label: "half of it, events", job: job{Contender: ours, Store: native, Lanes: 100, Events: true}, half: true},
			{label: "half of it, 10,000 lanes, events", job: job{Contender: ours, Store: native, Together: 2, Events: true}, half: true},
		}},
		held("held", "A snapshot that is held, Serial over 10,000 lanes", snapshot, job{Contender: ours, Store: pgx}),
		held("held-400", "A snapshot that is held, Serial over 400 lanes", snapshot, job{Contender: ours, Store: pgx, Lanes: 400}),
		held("held-parallel", "A snapshot that is held, Parallel over 400 lanes", snapshot, job{Contender: ours, Store: pgx, Lanes: 400, Parallel: true}),
		held("held-pq", "A snapshot that is held, lib/pq over 400 lanes", snapshot, job{Contender: ours, Store: pq, Lanes: 400}),
		held("held-elsewhere", "A transaction that has written in another database stays open, 400 lanes", elsewhere, job{Contender: ours, Store: pgx, Lanes: 400}),
		held("held-novacuum", "Autovacuum is switched off, 400 lanes", noVacuum, job{Contender: ours, Store: pgx, Lanes: 400}),
		held("held-bloated", "After a snapshot was held, 400 lanes", bloated, job{Contender: ours, Store: pgx, Lanes: 400}),
		held("held-river", "A snapshot that is held, the tuned job queue", snapshot, tuned.job),
		{"stages", "Allocations by stage", []entry{
			{label: "memory store", job: job{Contender: ours, Store: inMemory, Stages: true}},
			{label: "PostgreSQL with pgx", job: job{Contender: ours, Store: pgx, Stages: true}},
			{label: "PostgreSQL with lib/pq", job: job{Contender: ours, Store: pq, Stages: true}},
			{label: "SQLite", job: job{Contender: ours, Store: sqliteFull, Stages: true}},
		}},
		{"memory", "Memory with 1,000,000 waiting", []entry{
			{label: "nothing else waiting", job: job{Contender: ours, Store: pgx}},
			{label: "1,000,000 waiting", job: job{Contender: ours, Store: pgx, N: 100_000, Waiting: 1_000_000}},
		}},
	}
}
