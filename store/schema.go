package store

import (
	"errors"
	"fmt"
)

// Errors about the schema of a store's database.
var (
	// ErrNotMigrated means that the database lacks the tables of this version: call the store's
	// Migrate first.
	ErrNotMigrated = errors.New("dltbatch: the database is not migrated: call Migrate")
	// ErrNewerSchema means that a package more than one schema version further on has migrated the
	// database: use that package.
	ErrNewerSchema = errors.New("dltbatch: the database was migrated by a newer version")
	// ErrUnreleasedSchema means that a version from before the first release made the database. No
	// version migrates it: make a new database.
	ErrUnreleasedSchema = errors.New("dltbatch: a version from before the first release made the database, and nothing migrates it: make a new one")
	// ErrSchemaMoved means that the schema is on another server, or is being moved there (dltbatch
	// move). The call has stored nothing on either server. Use the data source name of the other
	// server.
	ErrSchemaMoved = errors.New("dltbatch: the schema moved to another server")
	// ErrReadOnly means that the database takes no writes at present, as a standby does during a
	// failover. A Runner waits until it takes writes.
	ErrReadOnly = errors.New("dltbatch: the database takes no writes")
)

// Schema compares the version of a database's schema with the code's.
type Schema struct {
	Have int64 `json:"have"` // the database's version; 0 if the database has no tables
	Want int64 `json:"want"` // the version that the code is made for
}

// Check is the rule for rolling deploys: code of schema version n works on versions n and n+1,
// because a migration only adds (docs/migrations.md). It returns [ErrNotMigrated],
// [ErrNewerSchema] or nil.
func (s Schema) Check() error {
	switch {
	case s.Have < s.Want:
		return fmt.Errorf("%w: it is at version %d, want %d", ErrNotMigrated, s.Have, s.Want)
	case s.Have > s.Want+1:
		return fmt.Errorf("%w: it is at version %d, this code works on %d and %d", ErrNewerSchema, s.Have, s.Want, s.Want+1)
	}
	return nil
}
