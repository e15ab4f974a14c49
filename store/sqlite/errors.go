package sqlite

import (
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Errors about the schema.
var (
	// ErrNotMigrated means that the database lacks the tables of this version: call
	// [Store.Migrate] first.
	ErrNotMigrated = errors.New("dltbatch: the database is not migrated: call Migrate")
	// ErrNewerSchema means that a package more than one schema version further on has migrated the
	// database: use that package. See [Store.Migrate].
	ErrNewerSchema = errors.New("dltbatch: the database was migrated by a newer version")
)

// ErrTxEnded means that SQLite has ended the application's transaction, as it does where the disk is full: roll
// back, and do nothing else in it. What is done in it would be committed at once, each statement alone.
var ErrTxEnded = errors.New("dltbatch: SQLite has ended the transaction: only roll it back")

// SettingError names a setting of a connection that does not keep the promises of a store, and
// the parameter for the data source name that does.
type SettingError struct {
	Setting string // the pragma
	Have    string
	Want    string
	DSN     string // the parameter for mattn's driver
}

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("dltbatch: sqlite: %s is %s, want %s: put %s into the data source name", e.Setting, e.Have, e.Want, e.DSN)
}

// wrap adds the operation that failed.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s: %w", op, err)
}

// expected reports whether an error is an answer of this package rather than of the database.
func expected(err error) bool {
	if _, other := errors.AsType[*FileError](err); other {
		return true
	}
	for _, e := range []error{batch.ErrInvalidInput, batch.ErrConflict, batch.ErrEnded, batch.ErrNotFound, batch.ErrInDoubt, batch.ErrNotAllowed, batch.ErrMovedOn, sqlstore.ErrFenced, ErrNewerSchema, ErrNotMigrated} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, setting := errors.AsType[*SettingError](err)
	return setting
}
