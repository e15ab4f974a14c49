package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// BenchmarkAddFloor measures a straight-line program that stores as much: one table with a
// unique id, one with payloads, two prepared statements. Add is measured against it, in one
// run.
func BenchmarkAddFloor(b *testing.B) {
	db, err := sqliteopen.Open(filepath.Join(b.TempDir(), "q.db"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	for _, q := range []string{
		"CREATE TABLE batches (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, service_id TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0)",
		"CREATE TABLE payloads (seq INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
	} {
		_, err := db.Exec(q)
		require.NoError(b, err)
	}
	n := 0
	for b.Loop() {
		tx, err := db.Begin()
		require.NoError(b, err)
		one, err := tx.Prepare("INSERT INTO batches (seq, id, service_id) VALUES (?, ?, ?)")
		require.NoError(b, err)
		two, err := tx.Prepare("INSERT INTO payloads (seq, payload) VALUES (?, ?)")
		require.NoError(b, err)
		for range benchGroup {
			n++
			in := benchBatch(n)
			_, err := one.Exec(n, fmt.Sprint(in.ID), string(in.Service))
			require.NoError(b, err)
			_, err = two.Exec(n, in.Payload)
			require.NoError(b, err)
		}
		require.NoError(b, one.Close())
		require.NoError(b, two.Close())
		require.NoError(b, tx.Commit())
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "batches/s")
}
