package sqlite

import (
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Options of a store. nil and the zero value are good choices.
type Options struct {
	// AllowNormal accepts synchronous = NORMAL, under which a power loss may take back a
	// promise (see the package comment). Defaults to false.
	AllowNormal bool
	// LogWarning is the size in bytes of the write-ahead log on the disk from which a Runner
	// reports it, with an event and in Health, as a [*LogError]: see the package comment.
	// Defaults to [DefaultLogWarning], 1 GiB; at least 1 MiB; negative is never. It costs one
	// look at the size of a file each second.
	LogWarning int64
}

// sharedStore has the methods that are the same in all SQL stores.
type sharedStore = sqlstore.Store

// Store is a [store.Store]. Its methods may be called concurrently, and by any
// number of stores and processes on one database file.
type Store struct {
	sharedStore
	db    *sql.DB
	opts  Options
	texts *sqlstore.Texts
	// settingsReadAt is when the settings of each connection were checked last.
	settingsReadAt sqlstore.PerConn[time.Time]
	// writer has one element while a transaction of this store writes. Waiting for this channel
	// ends with the context and is fair, unlike waiting in SQLite's busy handler.
	writer   chan struct{}
	handover writerHandover
	fresh    *sqlstore.Fresh
	unusable sqlstore.Unusable // the unusable names that scans found
	// schemaKnownUntil is when the last check of the schema's version expires; nil before the
	// first check.
	schemaKnownUntil atomic.Pointer[time.Time]

	files      *databaseFiles
	logWarning int64

	listeners listeners
	ownSpans  ownSpans
}

var (
	_ store.Store = (*Store)(nil)
	_ order.Store = (*Store)(nil)
)

// New returns a store in db, which the caller closes. It reads the settings of db's
// connections and changes nothing: a [*SettingError] names an unfit setting, a
// [*batch.InputError] a bad option. A nil error promises nothing about tables: see
// [Store.Migrate].
func New(db *sql.DB, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if db == nil {
		return nil, &batch.InputError{Field: "db", Value: "nil", Want: "an open *sql.DB, as sqliteopen.Open returns it"}
	}
	warning, err := o.logWarning()
	if err != nil {
		return nil, err
	}
	if err := checkSettings(db, *o); err != nil {
		return nil, err
	}
	path, err := filePath(db)
	if err != nil {
		return nil, err
	}
	files, err := openFiles(path)
	if err != nil {
		return nil, wrap("look at the file", err)
	}
	s := &Store{
		db: db, opts: *o, texts: sqlstore.NewTexts(rebind),
		writer: make(chan struct{}, 1), fresh: sqlstore.NewFresh(sqlstore.FreshBytes), files: files, logWarning: warning,
	}
	s.sharedStore = sqlstore.New(s.driver())
	return s, nil
}
