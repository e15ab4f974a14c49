package autobatch

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// DB is the kind of database that keeps the orders (docs/glossary.md#auto-batch).
type DB string

// The kinds of databases. docs/glossary.md#auto-batch has the first two.
const (
	DBMemory   DB = "in-memory" // lost with the process
	DBPostgres DB = "psql"
	DBSQLite   DB = "sqlite"
)

// Options of an [Engine]. The zero value of every field means its default.
type Options struct {
	// Disabled is the switch of docs/glossary.md#auto-batch, turned off: Run starts no loops,
	// and Add takes nothing. Awaits still work. Defaults to false; with [FromEnv] to true.
	Disabled bool
	// DB is for the application, which opens the store: nothing here looks at it.
	// Defaults to DBMemory.
	DB DB

	// MaxSize is how many orders a batch is made of, at most. Defaults to 100.
	MaxSize int
	// MaxBytes is how many bytes of payload its orders have, at most; one order
	// alone may have more. Defaults to 1 MiB; negative is unlimited.
	MaxBytes int
	// FlushAge is how long the first order at an idle party waits for company, unless
	// MaxSize or MaxBytes are reached, or one is urgent. While a batch of the party is
	// under way the next one fills whatever this is. An order whose Deadline passes
	// meanwhile fails. Defaults to 0: it waits for nobody.
	FlushAge time.Duration

	// MaxAttempts is the budget of a batch: every attempt that was posted spends one
	// (batch.Budget.EveryTry). When it is used up and none is in doubt, the orders go
	// back to wait for another batch. It is for batches whose Builder set no budget.
	// Defaults to 5; negative is unlimited.
	MaxAttempts int

	// BatchInterval is how often the loop looks for idle parties, and for deadlines
	// that have passed, where nothing wakes it earlier. Defaults to 1 s.
	BatchInterval time.Duration
	// MonitorInterval is how often verdicts are read from the database where nothing
	// hints at one ([Engine.Observe]), and how often all Awaits together are. How
	// often the ledger is asked is the Runner's Options.PollInterval. Defaults to 1 s.
	MonitorInterval time.Duration
	// RetryInterval is how long this Engine leaves a party alone after a batch of it
	// used its budget up. Before that, a failed batch is tried again after the Runner's
	// Options.RetryDelay: give it this value, and it is the retryInterval of
	// docs/glossary.md#auto-batch. Defaults to 1 s.
	RetryInterval time.Duration
	// RecoveryInterval is how long a party waits after its Builder or the store failed;
	// it doubles up to 60 s. Defaults to 1 s.
	RecoveryInterval time.Duration

	// Workers is how many parties' batches are built at once, at most. Defaults to 16.
	Workers int
	// BuildTimeout bounds each call of the Builder. Defaults to 15 s.
	BuildTimeout time.Duration
	// StoreTimeout bounds each call of the store. Defaults to 15 s.
	StoreTimeout time.Duration
	// Linger is the least time between two looks for idle parties, so that orders
	// which come together leave together. Defaults to 2 ms.
	Linger time.Duration
	// Drain is how long a stop may take. At least BuildTimeout and StoreTimeout.
	// Defaults to 30 s.
	Drain time.Duration

	// Check is the local check of what the Builder made, before it is stored: that of a
	// ledger's client, or a Runner's. What it refuses is as if the Builder had returned no batch: it is
	// reported, and the party's orders wait. Without it a batch that the ledger cannot
	// read is stored, and holds its party up until a person cancels it. Defaults to none.
	Check func(batch.Batch) error
	// Wake is told of every party that has a new batch: a Runner's Wake. Without it the
	// Runner finds the batch in its next scan. It must not block. Defaults to none.
	Wake func(party batch.ServiceID)
	// Observer is told of every [Event]. Defaults to none.
	Observer func(Event)
	// Logger is silent by default.
	Logger *slog.Logger
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// withDefaults returns a copy with every default filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	orDefault(&c.DB, DBMemory)
	orDefault(&c.MaxSize, 100)
	orDefault(&c.MaxBytes, 1<<20)
	orDefault(&c.MaxAttempts, 5)
	orDefault(&c.BatchInterval, time.Second)
	orDefault(&c.MonitorInterval, time.Second)
	orDefault(&c.RetryInterval, time.Second)
	orDefault(&c.RecoveryInterval, time.Second)
	orDefault(&c.Workers, 16)
	orDefault(&c.BuildTimeout, 15*time.Second)
	orDefault(&c.StoreTimeout, 15*time.Second)
	orDefault(&c.Linger, 2*time.Millisecond)
	orDefault(&c.Drain, max(30*time.Second, c.BuildTimeout, c.StoreTimeout))
	if c.Wake == nil {
		c.Wake = func(batch.ServiceID) {}
	}
	if c.Check == nil {
		c.Check = func(batch.Batch) error { return nil }
	}
	if c.Observer == nil {
		c.Observer = func(Event) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// budget is that of a batch whose Builder set none.
func (o Options) budget() batch.Budget {
	return batch.Budget{Attempts: max(0, o.MaxAttempts), EveryTry: true}
}

// check refuses options that cannot work together, naming both values.
func (o Options) check() error {
	for _, d := range [...]struct {
		name string
		d    time.Duration
	}{
		{"FlushAge", o.FlushAge}, {"BatchInterval", o.BatchInterval}, {"MonitorInterval", o.MonitorInterval},
		{"RetryInterval", o.RetryInterval}, {"RecoveryInterval", o.RecoveryInterval}, {"BuildTimeout", o.BuildTimeout},
		{"StoreTimeout", o.StoreTimeout}, {"Linger", o.Linger}, {"Drain", o.Drain},
	} {
		if d.d < 0 {
			return optionError(d.name, d.d, "0 (the default) or more")
		}
	}
	switch {
	case o.DB != DBMemory && o.DB != DBPostgres && o.DB != DBSQLite:
		return optionError("DB", o.DB, fmt.Sprintf("%q, %q or %q", DBMemory, DBPostgres, DBSQLite))
	case o.MaxSize < 0:
		return optionError("MaxSize", o.MaxSize, "0 (the default) or more")
	case o.Workers < 0:
		return optionError("Workers", o.Workers, "0 (the default) or more")
	case o.MaxBytes > batch.MaxPayload:
		return optionError("MaxBytes", o.MaxBytes, fmt.Sprintf("at most batch.MaxPayload (%d)", batch.MaxPayload))
	case o.FlushAge > 0 && o.MaxSize == 1:
		return optionError("FlushAge", o.FlushAge, "0: with MaxSize (1) there is no company to wait for")
	case o.RecoveryInterval > loop.MaxPause:
		return optionError("RecoveryInterval", o.RecoveryInterval, fmt.Sprintf("at most what it doubles up to (%s)", loop.MaxPause))
	case o.Linger > o.BatchInterval:
		return optionError("Linger", o.Linger, fmt.Sprintf("at most BatchInterval (%s)", o.BatchInterval))
	case o.Drain < o.BuildTimeout:
		return optionError("Drain", o.Drain, fmt.Sprintf("at least BuildTimeout (%s)", o.BuildTimeout))
	case o.Drain < o.StoreTimeout:
		return optionError("Drain", o.Drain, fmt.Sprintf("at least StoreTimeout (%s)", o.StoreTimeout))
	}
	return nil
}

func optionError(field string, value any, want string) error {
	return fmt.Errorf("autobatch: options: %w", &batch.InputError{Field: "Options." + field, Value: fmt.Sprint(value), Want: want})
}
