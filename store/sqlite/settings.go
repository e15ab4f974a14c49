package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// setting is an entry of the list of settings that change what stored data means, what is locked,
// or what survives a power loss.
type setting struct {
	name string // the name of the pragma
	// isFitting reports whether the store keeps its promises with this value in this database.
	isFitting func(have string, at databaseFacts) bool
	want      string
	dsn       string // the parameter for the data source name of mattn's and modernc's drivers
	// mattersAtCommit is true if the value in an application's transaction matters for its commit.
	mattersAtCommit bool
}

// databaseFacts are the facts about a database on which the judgement of a value depends.
type databaseFacts struct {
	isInMemory   bool // true for a database in memory, which is lost at the end anyway
	hasOneConn   bool // true if the pool has at most one connection
	allowsNormal bool // the value of Options.AllowNormal
}

// settings returns the list.
//
// Other settings change nothing for the store, and are not in the list. Nothing relies on
// foreign_keys, on LIKE (case_sensitive_like) or on triggers (recursive_triggers), and every
// statement that needs an order names it. With query_only, with mode=ro or without the right to
// write the file, writes fail and reads work. immutable=1, nolock=1 and a VFS without locks show
// in journal_mode, or prevent opening.
func settings() []setting {
	number := func(have string) int { n, _ := strconv.Atoi(have); return n }
	off := func(have string, _ databaseFacts) bool { return have == "0" }
	return []setting{
		{
			name: "journal_mode", want: "wal, or for a database in memory db.SetMaxOpenConns(1)", dsn: "_journal_mode=WAL",
			isFitting: func(have string, at databaseFacts) bool {
				return have == "wal" || have == memoryJournalMode && at.hasOneConn
			},
		},
		{
			name: "locking_mode", want: "normal: no other connection would get the lock", dsn: "no _locking_mode",
			isFitting: func(have string, at databaseFacts) bool { return have == "normal" || at.isInMemory },
		},
		{
			name: "busy_timeout", want: "1000 (milliseconds) or more", dsn: "_busy_timeout=5000",
			isFitting: func(have string, _ databaseFacts) bool { return number(have) >= 1000 },
		},
		{
			name: "synchronous", want: "2 (FULL), or 1 (NORMAL) with Options.AllowNormal", dsn: "_synchronous=FULL", mattersAtCommit: true,
			isFitting: func(have string, at databaseFacts) bool {
				return at.isInMemory || number(have) >= 2 || number(have) == 1 && at.allowsNormal
			},
		},
		{name: "read_uncommitted", want: "0: a batch may be read that is never stored", dsn: "no cache=shared", isFitting: off},
		{name: "ignore_check_constraints", want: "0", dsn: "no _ignore_check_constraints", isFitting: off, mattersAtCommit: true},
		{
			name: "encoding", want: "UTF-8: keys would sort in another order", dsn: "a new file, made without PRAGMA encoding",
			isFitting: func(have string, _ databaseFacts) bool { return have == "UTF-8" },
		},
	}
}

// memoryJournalMode is the journal_mode of a database in memory.
const memoryJournalMode = "memory"

// sqlValues returns one statement that reads the values of settings.
func sqlValues(list []setting) string {
	columns := make([]string, len(list))
	for i, s := range list {
		columns[i] = `(SELECT CAST(p.` + s.column() + ` AS TEXT) FROM pragma_` + s.name + ` p)`
	}
	return `SELECT ` + strings.Join(columns, ", ")
}

func (s setting) column() string {
	if s.name == "busy_timeout" {
		return "timeout"
	}
	return s.name
}

// queryer is a connection, or an application's transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkFits returns the error about the first setting that does not fit.
func checkFits(ctx context.Context, on queryer, list []setting, at databaseFacts) error {
	have := make([]string, len(list))
	if err := on.QueryRowContext(ctx, sqlValues(list)).Scan(pointers(have)...); err != nil {
		return wrap("read the settings of a connection", err)
	}
	return firstWrongSetting(list, have, at)
}

// pointers returns pointers to the texts, for Scan.
func pointers(texts []string) []any {
	into := make([]any, len(texts))
	for i := range texts {
		into[i] = &texts[i]
	}
	return into
}

// firstWrongSetting returns the error about the first value that does not fit.
func firstWrongSetting(list []setting, have []string, at databaseFacts) error {
	at.isInMemory = at.isInMemory || strings.EqualFold(have[0], memoryJournalMode) && list[0].name == "journal_mode"
	for i, s := range list {
		if !s.isFitting(have[i], at) {
			return &SettingError{Setting: s.name, Have: have[i], Want: s.want, DSN: s.dsn}
		}
	}
	return nil
}

// settingsTimeout bounds how long New waits for connections of the pool.
const settingsTimeout = 10 * time.Second

// checkSettings checks two connections if the pool may have more than one, since a pragma that was
// executed on only one of them does not apply to the other.
func checkSettings(db *sql.DB, o Options) error {
	// New takes no context, because this takes as little time as opening a file, unless all
	// connections of the pool are in use.
	ctx, cancel := context.WithTimeout(context.Background(), settingsTimeout)
	defer cancel()
	at := databaseFactsOf(db, o)
	conns := 2
	if at.hasOneConn {
		conns = 1
	}
	var held []*sql.Conn
	for range conns {
		conn, err := db.Conn(ctx)
		if err != nil {
			return wrap("connect", err)
		}
		defer func() { _ = conn.Close() }() // held until all are checked, so that they are different connections
		if err := checkVersion(ctx, conn); err != nil {
			return err
		}
		if err := checkFits(ctx, conn, settings(), at); err != nil {
			return err
		}
		held = append(held, conn)
	}
	if len(held) < 2 {
		return nil
	}
	return checkCache(ctx, held[0], held[1])
}

func databaseFactsOf(db *sql.DB, o Options) databaseFacts {
	return databaseFacts{hasOneConn: db.Stats().MaxOpenConnections == 1, allowsNormal: o.AllowNormal}
}

func checkVersion(ctx context.Context, conn *sql.Conn) error {
	var now sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT "+ownClock).Scan(&now); err == nil && now.Valid {
		return nil
	}
	var version string
	if err := conn.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return wrap("read the version: is this SQLite?", err)
	}
	return &SettingError{Setting: "sqlite_version()", Have: version, Want: "3.42 or newer", DSN: "nothing: use a newer driver"}
}

// checkCache refuses connections that share a cache (cache=shared), because SQLite does not wait
// for the locks between them, whatever the busy_timeout. No pragma shows that, but connections
// that share a cache share its size.
func checkCache(ctx context.Context, a, b *sql.Conn) (err error) {
	size := func(conn *sql.Conn) (n int) {
		if err == nil {
			err = conn.QueryRowContext(ctx, `PRAGMA cache_size`).Scan(&n)
		}
		return n
	}
	set := func(n int) {
		if err == nil {
			_, err = a.ExecContext(ctx, `PRAGMA cache_size = `+strconv.Itoa(n))
		}
	}
	was, other := size(a), size(b)
	set(was - 1)
	now := size(b)
	set(was)
	switch {
	case err != nil:
		return wrap("read the settings of a connection", err)
	case now != other:
		return &SettingError{Setting: "cache", Have: "shared", Want: "private: locks between the connections would not be waited for", DSN: "no cache=shared"}
	}
	return nil
}

// connect takes a connection from the pool. It checks the settings of a new connection, and of an
// older one once a minute, because the application may share the pool. It closes a connection that
// is unfit, and tries another.
func (s *Store) connect(ctx context.Context) (*sql.Conn, error) {
	at := databaseFactsOf(s.db, s.opts)
	for left := s.db.Stats().OpenConnections + 1; ; left-- {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		err = s.checkConn(ctx, conn, at)
		if err == nil {
			return conn, nil
		}
		_, setting := errors.AsType[*SettingError](err)
		if setting && !at.hasOneConn { // the only connection of a database in memory is the database itself
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection; Raw returns this error
		}
		_ = conn.Close()
		if !setting || at.hasOneConn || left <= 0 {
			return nil, err
		}
	}
}

// checkConn checks the settings of a connection if a check is due.
func (s *Store) checkConn(ctx context.Context, conn *sql.Conn, at databaseFacts) error {
	var looked *time.Time
	if err := conn.Raw(func(c any) error {
		looked = s.settingsReadAt.Of(c, func() int { return s.db.Stats().OpenConnections })
		return nil
	}); err != nil {
		return err
	}
	now := time.Now()
	if !looked.IsZero() && now.Sub(*looked) < schemaCheckInterval {
		return nil
	}
	if err := checkFits(ctx, conn, settings(), at); err != nil {
		return err
	}
	*looked = now
	return nil
}

// checkTakesTx returns an error for an application's transaction of another database, in which no
// Runner of this store would find the batches, and for one whose commit would not keep the
// promises. One statement reads both.
func (s *Store) checkTakesTx(ctx context.Context, tx queryer) error {
	var list []setting
	for _, line := range settings() {
		if line.mattersAtCommit {
			list = append(list, line)
		}
	}
	have := make([]string, len(list)+1)
	if err := tx.QueryRowContext(ctx, sqlValues(list)+", ("+sqlMainPath+")").Scan(pointers(have)...); err != nil {
		return wrap("read the settings of a transaction", err)
	}
	if path := have[len(list)]; path != s.files.sqlitePath {
		return &batch.InputError{
			Field: "tx", Value: "a transaction of " + nameOf(path), Want: "a transaction of this store's database, " + nameOf(s.files.sqlitePath),
		}
	}
	at := databaseFactsOf(s.db, s.opts)
	at.isInMemory = s.files.path == ""
	return firstWrongSetting(list, have, at)
}
