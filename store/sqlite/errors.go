package sqlite

import (
	"errors"
	"fmt"
)

// ErrTxEnded means that SQLite has ended the application's transaction, as it does where the disk
// is full: roll back, and do nothing else in it. Any further statement would be committed at once,
// each statement alone.
var ErrTxEnded = errors.New("dltbatch: SQLite has ended the transaction: only roll it back")

// SettingError is a setting of a connection with which the store cannot keep its promises, and the
// parameter for the data source name with which it can.
type SettingError struct {
	Setting string // the name of the pragma
	Have    string
	Want    string
	DSN     string // the parameter for the data source name of mattn's and modernc's drivers
}

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("dltbatch: sqlite: %s is %s, want %s: put %s into the data source name", e.Setting, e.Have, e.Want, e.DSN)
}

// wrap adds the name of the operation to an error.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s: %w", op, err)
}
