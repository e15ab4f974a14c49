package sqlite

import (
	"database/sql"

	"github.com/jmoiron/sqlx"

	"github.com/dltbatch/dltbatch/store"
)

// Options of a store. nil and the zero value are good ones.
type Options struct {
	// AllowNormal accepts synchronous = NORMAL, under which a power loss may take
	// back what was promised (see the package comment). Defaults to false.
	AllowNormal bool
}

// Store is a [store.Store]. Its methods may be called concurrently, and by any
// number of stores and processes on one database file.
type Store struct {
	db *sqlx.DB
	// writer holds one value while a transaction of this store writes: waiting here
	// honours contexts and is fair, which SQLite's busy handler is not.
	writer chan struct{}
	baton  baton
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Orders = (*Store)(nil)
)

// New returns a store in db, which stays the caller's to close. It reads the
// settings of db's connections and changes nothing: a [*SettingError] says which
// one does not do. A nil error promises nothing about tables: see [Store.Migrate].
func New(db *sql.DB, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := checkSettings(db, *o); err != nil {
		return nil, err
	}
	return &Store{db: sqlx.NewDb(db, "sqlite3"), writer: make(chan struct{}, 1)}, nil
}
