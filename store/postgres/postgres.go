package postgres

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/store"
)

// Options of a store. nil and the zero value are good ones.
type Options struct {
	// Schema that holds the tables. Migrate creates it if there is none. Lower-case
	// letters, digits and underscores. Defaults to "dltbatch".
	Schema string
	// Prefix of the tables' names, at most 30 bytes, as Schema. Defaults to none.
	Prefix string
	// AllowAsynchronousCommit accepts synchronous_commit = off, under which a crash of
	// the server may take back what was promised (see the package comment). Such a store does
	// not remember where the open work of lanes begins, since that may have been taken back,
	// too; set it alike in all processes on a schema. Defaults to false.
	AllowAsynchronousCommit bool
	// AllowSnapshotTx lets AddTx and AddOrdersTx take transactions above READ COMMITTED. Those may not
	// see what others have added since they began: then their batches are not behind
	// it in the lane. Defaults to false.
	AllowSnapshotTx bool
}

// Store is a [store.Store]. Its methods may be called concurrently, and by any
// number of stores and processes on one schema.
type Store struct {
	db      *sql.DB
	o       Options
	names   names
	queries sync.Map                       // of a statement of this package: what is sent
	checked atomic.Bool                    // the settings and the schema's version do
	lanes   atomic.Pointer[position.Lanes] // where they begin; nil: at their front
	watched atomic.Pointer[time.Time]      // when to look at the schema's version again
	hidden  atomic.Pointer[hidden]         // the last that was found
	noLocks atomic.Bool                    // pg_locks is kept from this role
	sawOpen atomic.Bool                    // the last scan found lanes
	careful atomic.Int64                   // until when scans look at remembered lanes one by one, in microseconds
	fresh   freshness
	listed  *listed

	monitored                     underWay
	oldBatches, oldOrders, oldIDs oldest // what Prune removes
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Orders = (*Store)(nil)
)

// New returns a store in db, which stays the caller's to close. It checks the
// options and asks the database nothing: what does not do there is the error of the
// first call. See [Store.Migrate].
func New(db *sql.DB, o *Options) (*Store, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	n, err := newNames(opts)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, o: opts, names: n, listed: newListed()}, nil
}
