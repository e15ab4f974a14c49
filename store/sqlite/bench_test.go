package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// The benchmarks measure docs/design.md#promise-9-cost: the cost of a round depends on the ready
// batches, and not on the waiting or final ones.

const (
	benchLanes = 1000
	benchGroup = 500
)

func benchStore(b *testing.B) *Store {
	b.Helper()
	db, err := sqliteopen.Open(filepath.Join(b.TempDir(), "q.db"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	s, err := New(db, nil)
	require.NoError(b, err)
	require.NoError(b, s.Migrate(b.Context()))
	return s
}

func benchBatch(n int) batch.Batch {
	return batch.Batch{ID: batch.ID(fmt.Sprintf("%0128x", n)), Service: benchLane(n), Payload: make([]byte, 1536)}
}

func benchLane(n int) batch.ServiceID { return batch.ServiceID(fmt.Sprintf("lane%04d", n%benchLanes)) }

// fill writes n batches into the tables, as Add would: waiting, or committed long ago.
func (s *Store) fill(b *testing.B, n int, final bool) {
	b.Helper()
	if n == 0 {
		return
	}
	numbers := fmt.Sprintf("WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < %d) ", n)
	run := func(q string) {
		_, err := s.db.Exec(q)
		require.NoError(b, err)
	}
	// Ids are spread, as signatures are, and so are their hashes.
	run(`INSERT INTO dltbatch_batches (seq, id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key, trace,
		payload_hash, budget_attempts, budget_every_try) ` + numbers + `SELECT i, randomblob(16), printf('%0112x%016x', i, (i * 2654435761) % 4294967296),
		printf('lane%04d', i % 1000), 1000000 + i, '', '', 0, zeroblob(32), 0, 0 FROM k`)
	run(`INSERT INTO dltbatch_batch_payloads SELECT seq, zeroblob(200) FROM dltbatch_batches`)
	if final {
		run(`INSERT INTO dltbatch_outcomes SELECT seq, 7, 3, 1, 0, 0, 0, created_at, 0, created_at, 0, NULL, '', 0, 0, 0 FROM dltbatch_batches`)
	} else {
		run(`INSERT INTO dltbatch_open_batches (seq, service_id, created_at, state, version) SELECT seq, service_id, created_at, 1, 1 FROM dltbatch_batches`)
	}
	run(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

// BenchmarkRound claims the first batches of 500 lanes, loads their payloads, and records them as
// accepted and then as committed.
func BenchmarkRound(b *testing.B) {
	for _, c := range []struct {
		name              string
		waiting, finished int
	}{
		{"waiting=10000", 10_000, 0}, {"waiting=1000000", 1_000_000, 0}, {"finished=1000000", 0, 1_000_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchStore(b)
			s.fill(b, c.waiting, false)
			s.fill(b, c.finished, true)
			if c.finished > 0 { // added after the history, as many as in the first case
				for g := range 20 {
					s.benchAdd(b, 2_000_000+g*benchGroup)
				}
			}
			parts := map[string]time.Duration{}
			rounds := 0
			for b.Loop() {
				s.benchRound(b, rounds, parts)
				b.StopTimer()
				s.benchAdd(b, 3_000_000+rounds*benchGroup)
				b.StartTimer()
				rounds++
			}
			b.ReportMetric(float64(rounds*benchGroup)/b.Elapsed().Seconds(), "batches/s")
			for name, d := range parts {
				b.ReportMetric(d.Seconds()*1e6/float64(rounds), name+"-us")
			}
		})
	}
}

func (s *Store) benchAdd(b *testing.B, from int) {
	b.Helper()
	in := make([]batch.Batch, benchGroup)
	for i := range in {
		in[i] = benchBatch(from + i)
	}
	require.NoError(b, s.Add(b.Context(), in...))
}

func (s *Store) benchRound(b *testing.B, round int, parts map[string]time.Duration) {
	ctx := b.Context()
	lanes := make([]batch.ServiceID, benchGroup)
	for i := range lanes {
		lanes[i] = benchLane(round*benchGroup + i)
	}
	part := func(name string, do func()) {
		start := time.Now()
		do()
		parts[name] += time.Since(start)
	}
	var outcomes []store.Outcome
	var refs []store.Ref
	part("claim", func() {
		q := claimQuery(lanes...)
		q.Limit, q.Window = benchGroup, 1
		got, err := s.Claim(ctx, q, chooseSerially)
		require.NoError(b, err)
		for _, r := range got.Runs {
			for _, c := range r.Batches {
				refs = append(refs, c.Ref)
				outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter})
			}
		}
		require.Len(b, refs, benchGroup)
	})
	part("payloads", func() {
		_, err := s.Payloads(ctx, refs)
		require.NoError(b, err)
	})
	record := func() {
		applied, err := s.Record(ctx, outcomes)
		require.NoError(b, err)
		for _, a := range applied {
			require.Equal(b, store.Written, a.Result)
		}
	}
	part("accepted", record)
	for i := range outcomes {
		outcomes[i].Version++
		outcomes[i].Finding, outcomes[i].By = store.IsCommitted, batch.ByMonitor
	}
	part("committed", record)
	part("lanes", func() {
		_, err := s.Lanes(ctx, store.LanesQuery{Start: true, Limit: benchLanes})
		require.NoError(b, err)
	})
	part("pending", func() {
		_, err := s.Pending(ctx, store.PendingQuery{Limit: benchGroup, Lease: time.Minute})
		require.NoError(b, err)
	})
}

// BenchmarkStats counts a million open batches in a hundred thousand lanes, and reads the counts.
func BenchmarkStats(b *testing.B) {
	const open, lanes = 1_000_000, 100_000
	s := benchStore(b)
	_, err := s.db.Exec(fmt.Sprintf(`PRAGMA foreign_keys = OFF; INSERT INTO dltbatch_open_batches (seq, service_id, created_at, state, version, attempt, doubt_attempt)
		WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < %[1]d)
		SELECT i, printf('lane%%06d', i %% %[2]d), 1000000 + i, CASE WHEN i <= %[2]d THEN 2 ELSE 1 END, 1, i <= %[2]d, i <= %[2]d FROM k;
		PRAGMA foreign_keys = ON`, open, lanes)) // a count reads no other table of batches
	require.NoError(b, err)
	_, err = s.db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	require.NoError(b, err)
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			got, err := s.CountOpen(b.Context())
			require.NoError(b, err)
			require.Equal(b, lanes, got.Lanes)
			require.Equal(b, map[batch.State]int{batch.Queued: open - lanes, batch.Submitting: lanes}, got.Open)
		}
	})
}
