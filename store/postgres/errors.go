package postgres

import (
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Errors about the schema.
var (
	// ErrNotMigrated means that the schema lacks the tables of this version: call
	// [Store.Migrate] first.
	ErrNotMigrated = errors.New("dltbatch: the database is not migrated: call Migrate")
	// ErrNewerSchema means that a package more than one schema version further on has migrated
	// the schema: use that package. See [Store.Migrate].
	ErrNewerSchema = errors.New("dltbatch: the database was migrated by a newer version")
)

// SettingError names a setting of the database that does not keep the promises of a store.
type SettingError struct {
	Setting string
	Have    string
	Want    string
}

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("dltbatch: postgres: %s is %s, want %s", e.Setting, e.Have, e.Want)
}

// IsolationError refuses an application's transaction that may not see the end of a lane.
// Begin it with READ COMMITTED, or see Options.AllowSnapshotTx.
type IsolationError struct {
	Level string // of the transaction, as PostgreSQL calls it
}

// Error implements error.
func (e *IsolationError) Error() string {
	return "dltbatch: postgres: the transaction is " + e.Level + ", want read committed"
}

// wrap adds the operation that failed.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", op, err)
}

// sqlState is PostgreSQL's five-character class of an error, or "".
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// States of PostgreSQL (its documentation, appendix A).
const (
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	lockNotAvailable      = "55P03"
	uniqueViolation       = "23505"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	undefinedFunction     = "42883"
	featureNotSupported   = "0A000"
	insufficientPrivilege = "42501"
	invalidSchemaName     = "3F000"
	adminShutdown         = "57P01"
	crashShutdown         = "57P02"
	idleTimeout           = "57P05"
	queryCanceled         = "57014"
)

// again reports whether the transaction did nothing and may be begun again.
func again(err error) bool {
	if errors.Is(err, sqlstore.ErrMoved) {
		return true
	}
	switch sqlState(err) {
	case serializationFailure, deadlockDetected:
		return true
	}
	return false
}

// lost reports whether a connection was gone before any statement ran on it.
func (s *Store) lost(err error) bool {
	switch sqlState(err) {
	case adminShutdown, crashShutdown, idleTimeout:
		return true
	}
	return s.pool.Unsent(err)
}
