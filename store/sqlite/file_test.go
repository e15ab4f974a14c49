package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// openAt opens the database at a path. The file need not exist.
func openAt(t *testing.T, path string) *Store {
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s, err := New(db, nil)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

// TestAnotherFile moves, removes and replaces the files of an open database, as deploys, restores
// and people do. From then on nothing is written to the open files, and each call returns an
// error, until the files are back.
func TestAnotherFile(t *testing.T) {
	move := func(t *testing.T, path string, names ...string) {
		for _, n := range names {
			require.NoError(t, os.Rename(path+n, path+".old"+n))
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
	}{
		{"all files are removed", func(t *testing.T, path string) {
			move(t, path, "", "-wal", "-shm")
		}},
		{"the database is removed", func(t *testing.T, path string) { move(t, path, "") }},
		{"a new database is in its place", func(t *testing.T, path string) {
			move(t, path, "", "-wal", "-shm")
			openAt(t, path)
		}},
		{"a backup is in its place", func(t *testing.T, path string) {
			db, err := sqliteopen.Open(path)
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), `VACUUM INTO '`+path+`.backup'`)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			move(t, path, "", "-wal", "-shm")
			require.NoError(t, os.Rename(path+".backup", path))
		}},
		{"the log is removed", func(t *testing.T, path string) { move(t, path, "-wal", "-shm") }},
		{"the log is another one", func(t *testing.T, path string) {
			move(t, path, "-wal", "-shm")
			require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
		}},
		{"the folder is another one", func(t *testing.T, path string) {
			require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			require.NoError(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "queue.db")
			s := openAt(t, path)
			require.NoError(t, s.Add(t.Context(), newBatch("before", 1)))
			c.do(t, path)
			var other *FileError
			require.ErrorAs(t, s.Add(t.Context(), newBatch("after", 2)), &other)
			t.Log(other)
			require.ErrorAs(t, s.Add(t.Context(), newBatch("after", 2)), &other, "again")
			_, err := s.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{newBatch("before", 1).Service}, Limit: 1, Window: 1, TTL: 1e9},
				func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
			require.ErrorAs(t, err, &other)
			if other.Path == path {
				_, err = s.Get(t.Context(), newBatch("before", 1).Key())
				require.ErrorAs(t, err, &other)
				require.ErrorAs(t, s.Migrate(t.Context()), &other)
				warnings, err := s.Upkeep(t.Context())
				require.NoError(t, err)
				require.Len(t, warnings, 1)
				assert.ErrorAs(t, warnings[0].Err, &other)
			}
		})
	}
}

// TestTheFileIsBack shows that calls succeed again after the file was moved away for a moment.
func TestTheFileIsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	s := openAt(t, path)
	require.NoError(t, os.Rename(path, path+".old"))
	var other *FileError
	require.ErrorAs(t, s.Add(t.Context(), newBatch("b", 1)), &other)
	require.NoFileExists(t, path, "no new file is made")
	require.NoError(t, os.Rename(path+".old", path))
	require.NoError(t, s.Add(t.Context(), newBatch("b", 1)))
}

// TestALinkToAnotherFile shows that a new connection of the pool is refused if its path has come
// to lead to another file.
func TestALinkToAnotherFile(t *testing.T) {
	dir := t.TempDir()
	one, two, link := filepath.Join(dir, "one.db"), filepath.Join(dir, "two.db"), filepath.Join(dir, "queue.db")
	openAt(t, one)
	openAt(t, two)
	require.NoError(t, os.Symlink(one, link))
	db, err := sqliteopen.Open(link)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	s, err := New(db, nil)
	require.NoError(t, err)
	require.NoError(t, s.Add(t.Context(), newBatch("b", 1)))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(two, link))
	db.SetMaxIdleConns(0) // each call opens the file again
	var other *FileError
	require.ErrorAs(t, s.Add(t.Context(), newBatch("c", 2)), &other)
	t.Log(other)
}
