package autobatch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// DB is the kind of database that holds the orders (docs/glossary.md#auto-batch).
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
	// and Add accepts nothing. Awaits still work. Defaults to false; with [FromEnv] to true.
	Disabled bool
	// DB is for the application, which opens the store: this package never reads it. Defaults
	// to DBMemory.
	DB DB

	// Delivery: how large a batch gets, and how soon it leaves.

	// MaxSize is the largest number of orders in a batch. Defaults to 100. More orders make fewer
	// submissions. But a refused batch takes longer to be halved down to its bad order, and its
	// good orders wait for that.
	MaxSize int
	// MaxBytes is the largest sum of the payloads of a batch's orders, in bytes; a single
	// order may have more. Defaults to 1 MiB; negative means unlimited. Keep it below what the
	// ledger accepts, with the Builder's own bytes.
	MaxBytes int
	// FlushAge is how long the first order of an idle party waits for more orders, unless
	// MaxSize or MaxBytes is reached, or an order is urgent. While a batch of the party is in
	// flight the next one fills, for any FlushAge. An order whose Deadline passes meanwhile
	// fails. Defaults to 0: no waiting. A longer time makes fewer and larger batches, and every
	// first order late.
	FlushAge time.Duration
	// BatchInterval is how often the loop looks for idle parties, and for passed deadlines,
	// unless it is woken earlier. Defaults to 1 s. A shorter one finds the orders of other
	// processes sooner, and costs reads of the database.
	BatchInterval time.Duration
	// MonitorInterval is how often verdicts are read from the database without a hint
	// ([Engine.Observe]), and how often all Awaits together read it. The Runner's
	// Options.PollInterval is how often the ledger is asked. Defaults to 1 s. A shorter one
	// costs reads of the database. It matters where the Runner is in another process.
	MonitorInterval time.Duration

	// Retries.

	// MaxAttempts is the budget of a batch whose Builder set none: every attempt with a POST
	// spends one (batch.Budget.EveryTry). When the budget is used up and no attempt is in
	// doubt, the orders go back and wait for another batch. Defaults to 5; negative means
	// unlimited.
	MaxAttempts int
	// RetryInterval is how long this Engine leaves a party alone after a batch of it used up
	// its budget. Before that, a failed batch is tried again after the Runner's
	// Options.Retry.Delay; set that to the same value to get the retryInterval of
	// docs/glossary.md#auto-batch. Defaults to 1 s.
	RetryInterval time.Duration
	// RecoveryInterval is how long a party waits after its Builder or the store failed. It
	// doubles up to 60 s. Defaults to 1 s.
	RecoveryInterval time.Duration

	// Limits.

	// Workers is the largest number of parties whose batches are built at once. Defaults to
	// 16. Raise it for a Builder that waits, for a key service for example.
	Workers int
	// BuildTimeout bounds each call of the Builder. Defaults to 15 s. The party of a call that is
	// cut off waits for RecoveryInterval.
	BuildTimeout time.Duration
	// StoreTimeout bounds each call of the store. Defaults to 15 s. A shorter one finds a
	// database that hangs sooner, and cuts off long writes.
	StoreTimeout time.Duration

	// Operation: links to the Runner, the time for a stop, traces and reports.

	// Check checks a new batch before it is stored. Use the local check of a ledger's client,
	// or Runner.Check. A batch that it refuses counts as if the Builder had returned no batch:
	// it is reported, and the party's orders wait. Without Check, a batch that the ledger
	// cannot read is stored, and blocks its party until a person cancels it. Defaults to none.
	Check func(batch.Batch) error
	// Wake is called for every party with a new batch. Use Runner.Wake, for a Runner that runs in
	// this process or another. It must not block. Defaults to a hint for the Runners of other
	// processes: a Runner of this process then finds the batch in its next scan.
	Wake func(party batch.ServiceID)
	// Drain is how long a stop may take. At least BuildTimeout and StoreTimeout.
	// Defaults to 30 s. Give the process as long before it is killed.
	Drain time.Duration
	// TraceParent returns the trace context of a caller of Add, which is stored with the orders
	// that have none of their own ([order.Order].TraceParent), or "". It must be quick, and may be
	// called concurrently. otelbatch.TraceParent is one. A text that is no context
	// ([batch.ValidTraceParent]) and a panic count in [Engine.DroppedTraces], and the order is
	// added all the same. Defaults to none.
	TraceParent func(ctx context.Context) string
	// TraceBatch returns the trace context of a new batch for which the Builder gave none, or "".
	// It must be quick, must not keep orders, and may be called concurrently. otelbatch.Traces has
	// one. Bad texts and panics count as those of TraceParent. Defaults to none: the batch has no
	// context.
	TraceBatch func(ctx context.Context, orders []order.Order) string
	// Observer receives an [OrderEvent] for each change that this Engine makes. Where the store
	// makes a change and its answer is lost, the event is lost, too. Defaults to none.
	Observer func(OrderEvent)
	// Logger is silent by default.
	Logger *slog.Logger
}

// withDefaults returns a copy in which every zero field has its default.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.DB = cmp.Or(c.DB, DBMemory)
	c.MaxSize = cmp.Or(c.MaxSize, 100)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.BatchInterval = cmp.Or(c.BatchInterval, time.Second)
	c.MonitorInterval = cmp.Or(c.MonitorInterval, time.Second)
	c.RetryInterval = cmp.Or(c.RetryInterval, time.Second)
	c.RecoveryInterval = cmp.Or(c.RecoveryInterval, time.Second)
	c.Workers = cmp.Or(c.Workers, 16)
	c.BuildTimeout = cmp.Or(c.BuildTimeout, 15*time.Second)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, 15*time.Second)
	c.Drain = cmp.Or(c.Drain, max(30*time.Second, c.BuildTimeout, c.StoreTimeout))
	if c.Check == nil {
		c.Check = func(batch.Batch) error { return nil }
	}
	if c.Observer == nil {
		c.Observer = func(OrderEvent) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = slog.New(legible.Handler(c.Logger.Handler()))
	return c
}

// budget returns the budget of a batch whose Builder set none.
func (o Options) budget() batch.Budget {
	return batch.Budget{Attempts: max(0, o.MaxAttempts), EveryTry: true}
}

// check returns an error for options that contradict each other; the error names both values.
func (o Options) check() error {
	for _, d := range [...]struct {
		name string
		d    time.Duration
	}{
		{"FlushAge", o.FlushAge}, {"BatchInterval", o.BatchInterval}, {"MonitorInterval", o.MonitorInterval},
		{"RetryInterval", o.RetryInterval}, {"RecoveryInterval", o.RecoveryInterval}, {"BuildTimeout", o.BuildTimeout},
		{"StoreTimeout", o.StoreTimeout}, {"Drain", o.Drain},
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
		return optionError("RecoveryInterval", o.RecoveryInterval, fmt.Sprintf("at most %s, the longest pause", loop.MaxPause))
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
