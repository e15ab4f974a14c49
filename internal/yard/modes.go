package main

import (
	"slices"
	"time"
)

// benchMode is a question that several entries answer. The entries run in turns, and the others
// are compared with the first.
type benchMode struct {
	name    string
	title   string
	entries []modeEntry
}

// modeEntry is one way to do the work of a mode.
type modeEntry struct {
	label string
	job   job
}

// Sizes of a job unless a mode or a flag says otherwise.
const (
	defaultBatches = 20_000
	defaultLanes   = 10_000
	payloadSize    = 1536
)

// Labels of entries. The label "ours" alone is Serial over 10,000 lanes.
const (
	labelPipelined      = "ours, Pipelined over 100 lanes" // several batches of a lane are under way
	labelRiverTuned     = "river tuned"
	labelNothingWaiting = "nothing else waiting"
	labelMillionWaiting = "1,000,000 waiting"
	suffixSameProcess   = ", same process"
	suffixOtherProcess  = ", another process"
	suffixFourProcesses = ", four other processes"
	suffixSnapshotHeld  = ", a snapshot held"
	suffixWithoutHints  = ", without hints"
	labelEightProcesses = "eight processes add"
	labelOwnPool        = "pgx's own pool"
	labelPgx            = "pgx"
	labelPQ             = "lib/pq"
	labelPgBouncer      = "pgx through PgBouncer"
	labelSQLite         = "SQLite"
)

// Settings of a run at a steady pace, unless flags say otherwise.
const (
	defaultPace = 2000
	defaultHold = 2 * time.Minute
	heldRounds  = 3 // at most, because the runs are long
)

func modes() []benchMode {
	throughput := func(floorStore, store string) []modeEntry {
		return []modeEntry{
			{contenderFloor, job{Contender: contenderFloor, Store: floorStore}},
			{contenderOurs, job{Contender: contenderOurs, Store: store}},
			{labelPipelined, job{Contender: contenderOurs, Store: store, Lanes: 100, Pipelined: 32}},
		}
	}
	rival := modeEntry{labelRiverTuned, job{Contender: contenderRiver, Store: storePgx}}
	late := func(label, contender, store, added string, lanes int) modeEntry {
		processes := map[string]int{suffixOtherProcess: 1, suffixFourProcesses: 4}[added]
		return modeEntry{label + added, job{
			Contender: contender, Store: store, Batches: lateWarmUpBatches + 100*max(1, processes), Lanes: lanes, RestBetweenAdds: 100 * time.Millisecond, Adders: processes,
		}}
	}
	lates := func(label, store string) []modeEntry {
		return []modeEntry{late(label, contenderOurs, store, suffixSameProcess, lateWarmUpBatches), late(label, contenderOurs, store, suffixOtherProcess, lateWarmUpBatches)}
	}
	steady := func(label, contender, store string, held bool) modeEntry {
		e := modeEntry{label, job{Contender: contender, Store: store, Lanes: 400, BatchesPerSecond: defaultPace, SteadyTime: defaultHold, HoldsSnapshot: held}}
		if held {
			e.label += suffixSnapshotHeld
		}
		return e
	}
	return []benchMode{
		{"throughput", "PostgreSQL with pgx's own pool", append(throughput(storePgx, storeNative), rival)},
		{"throughput-pq", "PostgreSQL with lib/pq", append(throughput(storePgx, storePQ), rival)},
		{"throughput-sqlite", "SQLite, synchronous = FULL", throughput(storeSQLite, storeSQLite)},
		{"latency", "An idle queue: from Add until its return, until the POST, and until Await answers", slices.Concat(
			lates(labelOwnPool, storeNative),
			[]modeEntry{late(labelOwnPool+", a new lane each", contenderOurs, storeNative, suffixOtherProcess, defaultLanes), late(labelRiverTuned, contenderRiver, storePgx, suffixOtherProcess, 0)},
			lates(labelPgx, storePgx), lates(labelPQ, storePQ), lates(labelPgBouncer, storeBouncer), lates(labelSQLite, storeSQLite),
			[]modeEntry{late(labelSQLite, contenderOurs, storeSQLite, suffixFourProcesses, lateWarmUpBatches)},
		)},
		{"hints", "The full run with hints between processes, and without; one process adds and sends, or eight others add", []modeEntry{
			{contenderOurs + suffixWithoutHints, job{Contender: contenderOurs, Store: storeNative, WithoutHints: true}}, {contenderOurs, job{Contender: contenderOurs, Store: storeNative}},
			{labelEightProcesses + suffixWithoutHints, job{Contender: contenderOurs, Store: storeNative, Adders: 8, WithoutHints: true}}, {labelEightProcesses, job{Contender: contenderOurs, Store: storeNative, Adders: 8}},
		}},
		{"backlog", "A process that starts before a backlog, PostgreSQL with pgx", []modeEntry{
			{labelNothingWaiting, job{Contender: contenderOurs, Store: storePgx}},
			{labelMillionWaiting, job{Contender: contenderOurs, Store: storePgx, Batches: 100_000, Waiting: 1_000_000}},
		}},
		{"held", "A steady pace over 400 lanes, and a transaction that holds a snapshot", []modeEntry{
			steady(contenderOurs, contenderOurs, storeNative, false), steady(contenderOurs, contenderOurs, storeNative, true),
			steady(labelRiverTuned, contenderRiver, storePgx, false), steady(labelRiverTuned, contenderRiver, storePgx, true),
		}},
	}
}
