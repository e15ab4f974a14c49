package postgres

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// ErrReadOnly means that the database takes no writes: the server is a standby, or its owner has
// made it read-only (default_transaction_read_only), as some providers do when the disk is almost
// full. The store does not override that. It closes the connections on which that is so, so that
// calls soon succeed if the name of the server leads to another server. Calls that only read work
// on a standby, in a process that has seen no other server. ErrReadOnly is [store.ErrReadOnly].
var ErrReadOnly = store.ErrReadOnly

// SettingError names a setting of a connection, or of an application's transaction, that does not
// keep the promises of a store.
type SettingError struct {
	Setting string
	Have    string
	Want    string
	Why     string // the harm that it would do
	Do      string // the remedy
}

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("dltbatch: postgres: %s is %q, want %s: %s: %s", e.Setting, e.Have, e.Want, e.Why, e.Do)
}

// IsolationError refuses an application's transaction that may not see the end of a lane.
// Begin it with READ COMMITTED, or see Options.AllowSnapshotTx.
type IsolationError struct {
	Level string // the isolation level of the transaction, as PostgreSQL calls it
}

// Error implements error.
func (e *IsolationError) Error() string {
	return "dltbatch: postgres: the transaction is " + e.Level + ", want read committed"
}

// wrap adds the name of the operation to an error.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", op, err)
}

// sqlState returns the SQLSTATE of an error, a code of five characters, or "".
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// constraintName returns the name of the constraint or the unique index that a statement violated,
// or "". Drivers have the name in a field of their error.
func constraintName(err error) string {
	var s interface{ SQLState() string }
	if !errors.As(err, &s) {
		return ""
	}
	v := reflect.Indirect(reflect.ValueOf(s))
	if v.Kind() != reflect.Struct {
		return ""
	}
	for _, name := range [...]string{"ConstraintName", "Constraint"} { // the fields of pgx and of lib/pq
		if f := v.FieldByName(name); f.Kind() == reflect.String {
			return f.String()
		}
	}
	return ""
}

// These are SQLSTATEs of PostgreSQL (appendix A of its documentation).
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
	readOnlyTransaction   = "25006"
)

// canRetry reports whether the transaction had no effect and may be begun again.
func canRetry(err error) bool {
	if errors.Is(err, sqlstore.ErrMoved) {
		return true
	}
	switch sqlState(err) {
	case serializationFailure, deadlockDetected:
		return true
	}
	return false
}

// isConnLost reports whether a connection was gone before any statement ran on it, or was unfit
// and has been closed.
func (s *Store) isConnLost(err error) bool {
	if _, is := errors.AsType[unfitError](err); is {
		return true
	}
	switch sqlState(err) {
	case adminShutdown, crashShutdown, idleTimeout:
		return true
	}
	return s.pool.Unsent(err)
}
