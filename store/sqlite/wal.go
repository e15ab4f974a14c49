package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// DefaultLogWarning is the default of [Options].LogWarning: 1 GiB.
const DefaultLogWarning = 1 << 30

// minLogKept is how large the log's file may stay while no transaction holds the log. SQLite
// overwrites it, which costs less than a new file.
const minLogKept = 64 << 20

// maxLogTail is how many frames of the log may still be missing from the database when the log is
// truncated. Writers wait while those frames are copied.
const maxLogTail = 1000

// minLogWarning is the least Options.LogWarning. A log grows larger than this while all is well.
const minLogWarning = 1 << 20

func (o *Options) logWarning() (int64, error) {
	switch {
	case o.LogWarning == 0:
		return DefaultLogWarning, nil
	case o.LogWarning > 0 && o.LogWarning < minLogWarning:
		return 0, &batch.InputError{Field: "LogWarning", Value: strconv.FormatInt(o.LogWarning, 10), Want: "1048576 bytes (1 MiB) or more, 0 for 1 GiB, or negative for never"}
	}
	return o.LogWarning, nil
}

// filePath returns the path of a database; "" for a database in memory.
func filePath(db *sql.DB) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), settingsTimeout)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", wrap("connect", err)
	}
	defer func() { _ = conn.Close() }()
	path, err := mainPath(ctx, conn)
	return path, wrap("read the database's path", err)
}

// LogError means that the write-ahead log is larger than Options.LogWarning. SQLite begins the log
// again only when no transaction reads the pages that the log replaces. So each write makes the
// log grow while any transaction that has read stays open, on any connection and in any process.
// The log shrinks within seconds after that transaction has ended.
type LogError struct {
	Path  string // the path of the log
	Size  int64  // in bytes
	Limit int64  // Options.LogWarning
}

// Error implements error.
func (e *LogError) Error() string {
	return fmt.Sprintf("sqlite: the log %s has %d bytes, want less than %d: a transaction that reads has been open for long",
		e.Path, e.Size, e.Limit)
}

// Upkeep is [store.Store].Upkeep. It cuts the log off where the log has grown large and is
// not needed any more, and warns with a [*LogError] while it is larger than
// Options.LogWarning. It warns with a [*FileError] while the file at the database's path is not
// the open one. While the log is small Upkeep only looks at two files.
func (s *Store) Upkeep(ctx context.Context) ([]store.Warning, error) {
	const op = "look after the log"
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil {
		if _, other := errors.AsType[*FileError](err); !other {
			return nil, wrap(op, err)
		}
		return []store.Warning{{Name: "sqlite file", Err: err}}, nil
	}
	size, err := s.logSize()
	if err != nil {
		return nil, wrap(op, err)
	}
	if size > s.logKept() {
		if err := s.cutLog(ctx); err != nil {
			return nil, wrap(op, err)
		}
		if size, err = s.logSize(); err != nil {
			return nil, wrap(op, err)
		}
	}
	warnings := s.unusable.Warnings(time.Now())
	if s.logWarning >= 0 && size >= s.logWarning {
		warnings = append(warnings, store.Warning{Name: "sqlite log", Err: &LogError{Path: s.files.logPath(), Size: size, Limit: s.logWarning}})
	}
	return warnings, nil
}

// logKept returns how large the log may stay, which is less than the size that causes a warning.
func (s *Store) logKept() int64 {
	if s.logWarning < 0 {
		return minLogKept
	}
	return min(minLogKept, s.logWarning/2)
}

// logSize returns the size of the log on the disk; 0 if there is no log.
func (s *Store) logSize() (int64, error) {
	if s.files.path == "" {
		return 0, nil // a database in memory has no log
	}
	info, err := os.Stat(s.files.logPath())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// cutLog empties the log's file, if no transaction reads from it. It first copies the log to the
// database while writers go on. They wait only while it copies the rest.
func (s *Store) cutLog(ctx context.Context) error {
	var copied bool
	err := s.read(ctx, "copy the log", func(ctx context.Context, t *session) (err error) {
		copied, err = t.checkpoint(ctx, "PASSIVE")
		return err
	})
	if err != nil || !copied {
		return err
	}
	w, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	good := false
	defer func() { s.endTurn(w, good) }()
	timeout, _, err := sqlstore.Get[int](ctx, w, "PRAGMA busy_timeout")
	if err != nil {
		return err
	}
	// With a timeout the checkpoint would wait for readers while it has the lock for which all
	// other processes wait.
	free := context.WithoutCancel(ctx)
	if _, err = w.conn.ExecContext(free, "PRAGMA busy_timeout = 0"); err == nil {
		_, err = w.checkpoint(free, "TRUNCATE")
	}
	if _, kept := w.conn.ExecContext(free, fmt.Sprintf("PRAGMA busy_timeout = %d", timeout)); kept != nil {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool drops this connection
		err = errors.Join(err, kept)
	}
	good = err == nil
	return err
}

// checkpoint copies frames from the log to the database, and reports whether almost all are
// copied. While another checkpoint runs it does nothing.
func (t *session) checkpoint(ctx context.Context, mode string) (bool, error) {
	type result struct {
		Busy bool `db:"busy"`
		Log  int  `db:"log"`
		Done int  `db:"checkpointed"`
	}
	found, err := sqlstore.Query[result](ctx, t, "PRAGMA wal_checkpoint("+mode+")")
	if err != nil {
		return false, err
	}
	return !found[0].Busy && found[0].Log-found[0].Done <= maxLogTail, nil
}
