package postgres

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// Options of a store. nil and the zero value are good choices.
type Options struct {
	// Schema that holds the tables. Migrate creates a missing schema. Lower-case letters,
	// digits and underscores. Defaults to "dltbatch".
	Schema string
	// Prefix of the tables' names, at most 30 bytes, as Schema. Defaults to none.
	Prefix string
	// Shard says which shard of a set the schema is (package shards). Migrate records it in a
	// schema without batches. A schema that is another one, or none, gives [store.ErrOtherShard]
	// from the first call on. In every process, also where this is not set, a schema that is a
	// shard refuses batches of other lanes than its own. Defaults to none.
	Shard store.Shard
	// AllowAsynchronousCommit accepts synchronous_commit = off, with which a crash of the server
	// may undo commits that were promised (see the package comment). It also accepts
	// synchronous_commit = local on a server with synchronous standbys, with which a failover may
	// undo them. Such a store does not remember where the open work of lanes begins, since a crash
	// may change that, too. Set it to the same value in all processes on a schema. Defaults to
	// false.
	AllowAsynchronousCommit bool
	// AllowSnapshotTx lets AddTx and AddOrdersTx take transactions above READ COMMITTED. Such a
	// transaction may not see batches that others have added since it began; its own batches may
	// then come before them in the lane. If retention has removed one of its batches since it
	// began, AddTx fails with SQLSTATE 40001. A SERIALIZABLE transaction does not read the ends of
	// lanes at all, because two transactions of different lanes would then fail with 40001. If the
	// database's clock was stepped back since another process added to the lane, its batches may
	// come before that process's batches. Defaults to false.
	AllowSnapshotTx bool
	// Listen opens the session on which the store gets hints from other processes: see the package
	// comment. native.Listen makes a Listen of a data source name, and native.ListenBeside makes
	// one of a pool. Stores with the same Listen share a session. Defaults to a session by the
	// pool's own driver, if that is possible.
	Listen func(ctx context.Context) (Listener, error)
	// PauseOnLostCommits pauses everything when commits turn out to be lost ([ErrLostCommits]): no
	// process claims anything until a person has checked and resumes everything. Its price is a
	// stop of deliveries that a lost commit may not need: a batch that this process knows to be
	// posted is not posted as new in any case. And whenever another server answers, also after a
	// plain restart, claims wait until all live instances have checked, 45 s at most. Set it if
	// the lost work of other processes would be worse than that, and to the same value in all
	// processes. Defaults to false.
	PauseOnLostCommits bool
	// NotifyInTx makes AddTx and AddOrdersTx send the hint to other processes in the application's
	// own transaction, so that nobody has to call Wake after the commit. The price is that
	// PostgreSQL commits transactions that notify one after the other, in all databases of the
	// server. Defaults to false.
	NotifyInTx bool
}

// Listener is a session that waits for notifications ([Options].Listen), or a share of one. Listen
// is called once, and sends LISTEN for a channel. Next waits for a notification on the channel and
// returns its payload. Close gets the reason why no notifications arrive, or nil if no listener is
// left, and does not wait for long.
type Listener = conns.Listener

// sharedStore has the methods that are the same in all SQL stores.
type sharedStore = sqlstore.Store

// Store is a [store.Store]. Its methods may be called concurrently, and by any
// number of stores and processes on one schema.
type Store struct {
	sharedStore
	pool               conns.Pool
	opts               Options
	names              names
	texts              *sqlstore.Texts
	schemaCheckedUntil atomic.Pointer[time.Time]     // the time up to which the schema counts as checked; nil before the first check
	connsDoubtedAt     atomic.Pointer[time.Time]     // the time before which checks of connections do not count
	hasSeenWritable    atomic.Bool                   // true once a server that takes writes was seen
	refusedWrites      atomic.Pointer[refusedWrites] // set while the database refuses writes; nil otherwise
	positions          *position.Memory              // where the open work begins
	lastHidden         atomic.Pointer[hiddenBatch]   // the last hidden batch that a claim found
	cannotReadLocks    atomic.Bool                   // true if this role may not read pg_locks
	freshness          freshness
	latestOrderKey     atomic.Int64      // the last order key or time of the clock that this process has seen in an addition
	addedBatches       *sqlstore.Fresh   // the batches of this process's Adds that it has not claimed yet
	hasReadUnknown     atomic.Bool       // true if the last claim read batches that are not in addedBatches
	unusable           sqlstore.Unusable // the unusable names that scans found

	listeners listeners // the listeners

	ownDatabase  ownDatabase
	identity     identity
	commitMemory commitMemory
	shard        atomic.Pointer[store.Shard] // the shard that the schema is; nil before it was read
	isNeverShard atomic.Bool                 // true once the schema is no shard and can no longer become one
}

// Abilities returns all abilities.
func (s *Store) Abilities() store.Abilities { return store.AllAbilities }

var (
	_ store.Store = (*Store)(nil)
	_ order.Store = (*Store)(nil)
)

// New returns a store in db, which the caller closes. It checks the options and sends nothing
// to the database: an unfit database gives an error of the first call. See [Store.Migrate].
func New(db *sql.DB, o *Options) (*Store, error) {
	if db == nil {
		return nil, &batch.InputError{Field: "db", Value: "nil", Want: "an open *sql.DB"}
	}
	s, _, err := Over(sqlPool{db, &conns.Sessions{}}, o)
	return s, err
}

// Over is New over connections of another kind. Only packages of this module can call it: see
// package native. It also returns the functions that add in transactions of such connections.
func Over(pool conns.Pool, o *Options) (*Store, conns.Adders, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	n, err := newNames(opts)
	if err != nil {
		return nil, conns.Adders{}, err
	}
	if err := opts.Shard.Validate(); err != nil {
		return nil, conns.Adders{}, err
	}
	lanes := maxPositions
	if opts.AllowAsynchronousCommit { // a crash may undo the end of a batch, and the server may keep its start time
		lanes = 0
	}
	s := &Store{
		pool: pool, opts: opts, names: n, texts: sqlstore.NewTexts(n.fill), addedBatches: sqlstore.NewFresh(sqlstore.FreshBytes),
		positions: position.NewMemory(lanes, int(sqlstore.AgingIDs)+1),
	}
	s.sharedStore = sqlstore.New(s.driver())
	return s, conns.Adders{Batches: s.addTx, Orders: s.addOrdersTx}, nil
}
