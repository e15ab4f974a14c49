package sqliteopen_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// Open opens files of any name, with settings that New accepts.
func TestOpen(t *testing.T) {
	for _, name := range []string{"q.db", "with space.db", "what?.db", "100%25#1.db", "a&b=c;d.db", "ünï.db", sqliteopen.Memory} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			if name == sqliteopen.Memory {
				path = name
			}
			for range 2 { // in the second round the file exists
				db, err := sqliteopen.Open(path)
				require.NoError(t, err)
				s, err := sqlite.New(db, nil)
				require.NoError(t, err)
				require.NoError(t, s.Migrate(t.Context()))
				require.NoError(t, s.Add(t.Context(), batch.Batch{ID: "a", Payload: []byte("x")}))
				var fk, sync int
				require.NoError(t, db.QueryRow("PRAGMA foreign_keys").Scan(&fk))
				require.NoError(t, db.QueryRow("PRAGMA synchronous").Scan(&sync))
				assert.Equal(t, 1, fk)
				assert.Equal(t, 2, sync)
				require.NoError(t, db.Close())
			}
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			if name == sqliteopen.Memory {
				assert.Empty(t, files)
				return
			}
			require.Len(t, files, 1, "the log and its index are gone after the last close")
			assert.Equal(t, name, files[0].Name())
		})
	}
}

// A new file gets pages of the requested size, and keeps that size however it is opened later.
// Commits copy the log from the same number of bytes on.
func TestPageSize(t *testing.T) {
	for asked, want := range map[int]int{0: sqliteopen.DefaultPageSize, 512: 512, 1024: 1024, 4096: 4096, 65536: 65536} {
		path := filepath.Join(t.TempDir(), "q.db")
		for _, o := range []*sqliteopen.Options{{PageSize: asked}, nil, {PageSize: 8192}} {
			db, err := sqliteopen.OpenWith(path, o)
			require.NoError(t, err)
			s, err := sqlite.New(db, nil)
			require.NoError(t, err)
			require.NoError(t, s.Migrate(t.Context()))
			require.NoError(t, s.Add(t.Context(), batch.Batch{ID: "a", Payload: make([]byte, 100_000)}))
			var size, after int
			require.NoError(t, db.QueryRow("PRAGMA page_size").Scan(&size))
			require.NoError(t, db.QueryRow("PRAGMA wal_autocheckpoint").Scan(&after))
			assert.Equal(t, want, size)
			if o != nil && o.PageSize == asked && asked != 0 {
				assert.Equal(t, 4096*1000/asked, after)
			}
			require.NoError(t, db.Close())
		}
	}
	for _, bad := range []int{-1, 256, 1000, 131072} {
		_, err := sqliteopen.OpenWith(filepath.Join(t.TempDir(), "q.db"), &sqliteopen.Options{PageSize: bad})
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr)
		assert.Equal(t, "PageSize", inputErr.Field)
	}
}

// A relative path is relative to the working directory.
func TestOpenRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	db, err := sqliteopen.Open("q.db")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = os.Stat("q.db")
	require.NoError(t, err)
}

// A file that cannot be opened is an error of Open.
func TestOpenFails(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever it is called, and never was one"), 0o600))
	for _, path := range []string{"", "a\x00b", filepath.Join(t.TempDir(), "no", "such", "directory", "q.db"), t.TempDir(), text} {
		db, err := sqliteopen.Open(path)
		assert.Error(t, err, path)
		assert.Nil(t, db)
	}
}
