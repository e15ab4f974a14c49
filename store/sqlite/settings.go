package sqlite

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// settingsTimeout bounds how long New waits for connections of the pool.
const settingsTimeout = 10 * time.Second

// checkSettings looks at two connections where the pool has more than one: a pragma that was
// executed on only one of them would not show on the other.
func checkSettings(db *sql.DB, o Options) error {
	// New takes no context: this is as local as opening a file, unless the pool is used up.
	ctx, cancel := context.WithTimeout(context.Background(), settingsTimeout)
	defer cancel()
	single := db.Stats().MaxOpenConnections == 1
	conns := 2
	if single {
		conns = 1
	}
	for range conns {
		conn, err := db.Conn(ctx)
		if err != nil {
			return wrap("connect", err)
		}
		defer func() { _ = conn.Close() }() // held until all are looked at, so that they are different connections
		if err := checkConn(ctx, conn, single, o); err != nil {
			return err
		}
	}
	return nil
}

func checkConn(ctx context.Context, conn *sql.Conn, single bool, o Options) error {
	var now sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT "+ownClock).Scan(&now); err != nil || !now.Valid {
		var version string
		if err := conn.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
			return wrap("read the version: is this SQLite?", err)
		}
		return &SettingError{Setting: "sqlite_version()", Have: version, Want: "3.42 or newer", DSN: "nothing: use a newer driver"}
	}
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return wrap("read journal_mode", err)
	}
	memory := strings.EqualFold(mode, "memory")
	switch {
	case memory && !single:
		return &SettingError{Setting: "journal_mode", Have: mode, Want: "wal, or for a database in memory db.SetMaxOpenConns(1)", DSN: "_journal_mode=WAL"}
	case !memory && !strings.EqualFold(mode, "wal"):
		return &SettingError{Setting: "journal_mode", Have: mode, Want: "wal", DSN: "_journal_mode=WAL"}
	}
	var busy, synchronous int
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&busy); err != nil {
		return wrap("read busy_timeout", err)
	}
	if busy < 1000 {
		return &SettingError{Setting: "busy_timeout", Have: strconv.Itoa(busy), Want: "1000 (milliseconds) or more", DSN: "_busy_timeout=5000"}
	}
	if err := conn.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&synchronous); err != nil {
		return wrap("read synchronous", err)
	}
	switch {
	case memory: // nothing survives anyway
	case synchronous < 1 || (synchronous == 1 && !o.AllowNormal):
		want := "2 (FULL), or 1 (NORMAL) with Options.AllowNormal"
		return &SettingError{Setting: "synchronous", Have: strconv.Itoa(synchronous), Want: want, DSN: "_synchronous=FULL"}
	}
	return nil
}
