package dltbatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/engine"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/internal/release"
	"github.com/dltbatch/dltbatch/queuer"
)

// Options of a [Runner]. The zero value of every field means its default, and the defaults suit
// most services: begin with nil. New refuses values that contradict each other.
type Options struct {
	// Delivery: which batches leave when, and how soon the outcome is known.

	// Strategy decides which batches of a lane may be under way together. Defaults to
	// [queuer.Serial]: one at a time, which is right for every ledger. [queuer.Pipelined] and
	// [queuer.Parallel] are quicker where a lane has many batches. The first needs a ledger that
	// keeps the order of submission, the second needs true footprints.
	Strategy queuer.Strategy
	// RequestTimeout bounds each request to the ledger. Defaults to 15 s. A longer time suits a
	// ledger that answers slowly: a POST that is cut off is a doubt, and its lane waits until the
	// doubt is settled. A shorter time finds a ledger that hangs sooner.
	RequestTimeout time.Duration
	// ClaimTTL is how long an instance may take to post the batches that it claimed. After it,
	// other instances ask the ledger about them. It must be longer than RequestTimeout plus a
	// margin of a third of it (at least 100 ms, at most 5 s), and longer than twice RequestTimeout
	// plus that margin where the ledger prepares before each POST (dlt.Traits.Renews). Defaults to
	// 60 s. A claim itself takes a part of that time. If no request fits into the rest, the
	// batches are put back, and batch.EventTrouble reports it. With a shorter time the lanes of an
	// instance that died go on sooner. But less is claimed at once, and fewer quick retries fit
	// into a claim.
	ClaimTTL time.Duration
	// FirstPoll is the time from acceptance to the first status query about a batch. The pause
	// doubles up to PollInterval. Defaults to 10 ms. A longer time suits a ledger that commits in
	// blocks of seconds: it saves queries that find nothing, and a quick commit is seen later.
	FirstPoll time.Duration
	// PollInterval is the longest time between two status queries about a batch, and between two
	// reads of the database by Await. Defaults to 1 s. A shorter one sees slow commits, and what
	// other processes have done, sooner; it costs requests to the ledger and reads of the
	// database.
	PollInterval time.Duration
	// ScanInterval is how often the Runner looks for lanes that no hint named, such as the Adds of
	// other processes: up to 5,000 lanes each time. Defaults to 1 s. A shorter one finds them
	// sooner, and costs reads of the database. If a scan takes long, the pauses grow by
	// themselves, to a minute at most, or to ScanInterval if that is longer.
	ScanInterval time.Duration

	// Retries: how often the Runner tries again, and how a lane goes on after a failure.

	// Retry says how often a batch is tried again, and after which pauses: see its fields.
	Retry RetryPolicy
	// RetryOf returns what differs from Retry for a service: the fields that are not zero. It must
	// be pure and quick, and may be called concurrently. Defaults to no differences.
	RetryOf func(batch.ServiceID) RetryPolicy
	// Policy decides how a lane without its own policy (Runner.SetPolicy) goes on when one of
	// its batches ends Invalid or Rejected. Defaults to [batch.PolicyContinue]. Choose
	// [batch.PolicyHalt] where later batches make no sense without the earlier: then a person
	// has to release the lane.
	Policy batch.Policy
	// ResendAtRiskOfExecutingTwice decides beforehand that a batch in doubt is sent again if
	// the ledger neither knows it nor gives evidence about it. No person is needed then. It
	// breaks the promise "at most once in effect" on ledgers that execute duplicates.
	ResendAtRiskOfExecutingTwice bool

	// Limits: how much of the ledger, the database and this process is used at once.

	// Pool is the largest number of POSTs in flight at once. Defaults to 64. Raise it for many
	// lanes and a ledger far away, until the ledger answers "busy": the Runner then lowers the
	// number by itself for a while. Each POST in flight holds its payload and a connection.
	Pool int
	// StatusConnections is the largest number of status requests in flight at once. Defaults
	// to 8. Raise it where answers take long and commits are noticed late; the ledger has more
	// to do then.
	StatusConnections int
	// Streams is the largest number of event streams open at once, where the ledger has
	// events. Defaults to 256; negative means no streams. Batches of services without a stream
	// are polled, which is slower and costs more requests. Each stream holds a connection.
	Streams int
	// ClaimLimit is the largest number of batches in one claim. Defaults to 500. A larger one
	// claims more lanes in one transaction, which lasts longer.
	ClaimLimit int

	// Operation: names, stops, retention and reports.

	// Instance names this process in its claims and attempts: printable text of at most
	// [batch.MaxInstanceLen] bytes, in one line. Defaults to the host's name, the process's number
	// and a random word. Set it where hosts have names that say nothing, to a name that no other
	// process has.
	Instance string
	// Drain is how long a stop may take. At least RequestTimeout. Defaults to 30 s. Give the
	// process as long before it is killed; a kill loses nothing, but leaves claims that expire
	// and doubts that have to be settled.
	Drain time.Duration
	// Retention is how long final batches are kept; negative means for ever. It must be longer
	// than the ledger's ResendHarmlessFor, unless that is for ever too. Defaults to 30 days;
	// for ever where the store lacks [store.CanPrune]. A shorter one saves disk; a batch that is
	// removed cannot be listed or requeued any more.
	Retention time.Duration
	// StuckAfter is how long an open batch may go without a move towards its end before the Runner
	// calls a person ([batch.EventDecision]), once; docs/design.md#deadlines says what a move is.
	// The batch goes on. Defaults to 1 h. A shorter one calls a person sooner, also where the
	// ledger would have taken or decided the batch a little later.
	StuckAfter time.Duration
	// Rest is for a database that sleeps while it gets no statement. While nothing is open, the
	// Runner makes its calls together, once in each Rest, and does not listen to other processes.
	// So batches that others add are found up to Rest later, and batches that this process adds
	// are sent at once. Instances that died, and a database that takes no writes, are noticed
	// later, too. Defaults to 0: an idle Runner then sends less than 0.2 statements a second if it
	// gets hints, and two if it gets none (docs/design.md#idle). Set it, to 10 min or more, if the
	// process that adds also delivers. The pool must close idle connections (SetConnMaxIdleTime).
	Rest time.Duration
	// Observer receives every event before the Runner goes on, so none is lost. Defaults to none.
	// An observer that may be slow belongs into Observers.
	Observer batch.Observer
	// Observers receive every event, too, each in the order of the events, and later than
	// Observer: on a goroutine that exists only while events wait, 4,096 at most for each
	// observer. An observer that is slower than that loses events, and delays nothing.
	// [health.Health].LostEvents counts the lost events. At the end of Run the events that wait
	// get half a second. No element may be nil.
	Observers []batch.Observer
	// Calls observes each call to the store and to the ledger. Defaults to none, which costs
	// nothing.
	Calls batch.CallObserver
	// TraceParent returns the trace context of a caller of Add or AddTx, which is stored with the
	// batches that have none of their own ([batch.Batch].TraceParent), or "". It must be quick,
	// and may be called concurrently. otelbatch.TraceParent is one. A text that is no context
	// ([batch.ValidTraceParent]) and a panic count in [health.Health].DroppedTraces, and the batch
	// is added all the same. Defaults to none, which costs nothing.
	TraceParent func(ctx context.Context) string
	// TraceRequest is called before each POST to the ledger, with the trace contexts of its
	// batches: "" for a batch without one. The POST gets the context that TraceRequest returns,
	// which it must make of ctx; after the POST end is called with its error. end may be nil. Both
	// must be quick, may be called concurrently, and must not keep traceParents. A panic in one of
	// them is contained and logged, and the POST goes on. otelbatch.Traces has one. Defaults to
	// none, which costs nothing.
	TraceRequest func(ctx context.Context, traceParents []string) (_ context.Context, end func(error))
	// Logger gets every event, and the start and the stop of each Run. A person should look at its
	// lines of Warn and Error, which sum up repeated troubles. A panic of its handler is
	// contained, and loses the line; [health.Health].Trouble shows the panic. Defaults to no log.
	Logger *slog.Logger
}

// withDefaults returns a copy with every default filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Strategy.Select == nil && c.Strategy.Name == "" {
		c.Strategy = queuer.Serial()
	}
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 15*time.Second)
	c.ClaimTTL = cmp.Or(c.ClaimTTL, time.Minute)
	c.PollInterval = cmp.Or(c.PollInterval, time.Second)
	c.FirstPoll = cmp.Or(c.FirstPoll, min(10*time.Millisecond, c.PollInterval))
	c.ScanInterval = cmp.Or(c.ScanInterval, time.Second)
	c.Retry = c.Retry.fillFrom(defaultRetry)
	c.Policy = cmp.Or(c.Policy, batch.PolicyContinue)
	if c.Instance == "" {
		c.Instance = instanceName()
	}
	c.Pool = cmp.Or(c.Pool, 64)
	c.ClaimLimit = cmp.Or(c.ClaimLimit, 500)
	c.StatusConnections = cmp.Or(c.StatusConnections, 8)
	c.Streams = cmp.Or(c.Streams, 256)
	c.Drain = cmp.Or(c.Drain, max(30*time.Second, c.RequestTimeout))
	c.StuckAfter = cmp.Or(c.StuckAfter, time.Hour)
	c.Retry.QuickRetries = max(0, c.Retry.QuickRetries)
	c.Observers = slices.Clone(c.Observers)
	return c
}

// claimMargin returns how long before the end of its claim a request must have ended.
func (o Options) claimMargin() time.Duration {
	return max(100*time.Millisecond, min(5*time.Second, o.RequestTimeout/3))
}

// check returns an error for options that contradict each other; the error names both values.
func (o Options) check() error {
	for _, d := range [...]struct {
		name string
		d    time.Duration
	}{
		{"RequestTimeout", o.RequestTimeout}, {"ClaimTTL", o.ClaimTTL}, {"PollInterval", o.PollInterval},
		{"FirstPoll", o.FirstPoll}, {"ScanInterval", o.ScanInterval}, {"Retry.Delay", o.Retry.Delay},
		{"Retry.MaxDelay", o.Retry.MaxDelay}, {"Retry.QuickRetryPause", o.Retry.QuickRetryPause},
		{"Drain", o.Drain}, {"StuckAfter", o.StuckAfter}, {"Rest", o.Rest},
	} {
		if d.d < 0 {
			return engine.BadOption(d.name, d.d, "0 (the default) or more")
		}
	}
	for _, n := range [...]struct {
		name string
		n    int
	}{{"Pool", o.Pool}, {"ClaimLimit", o.ClaimLimit}, {"StatusConnections", o.StatusConnections}} {
		if n.n < 0 {
			return engine.BadOption(n.name, n.n, "0 (the default) or more")
		}
	}
	if o.Retry.Budget.Attempts < 0 {
		return engine.BadOption("Retry.Budget.Attempts", o.Retry.Budget.Attempts, "0 (unlimited) or more")
	}
	if !o.Policy.Known() {
		return engine.BadOption("Policy", o.Policy, "a policy")
	}
	if err := batch.CheckText("Options.Instance", o.Instance, batch.MaxInstanceLen); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if least := o.RequestTimeout + o.claimMargin(); o.ClaimTTL <= least {
		return engine.BadOption("ClaimTTL", o.ClaimTTL, fmt.Sprintf("more than RequestTimeout (%s) and its margin (%s)", o.RequestTimeout, o.claimMargin()))
	}
	if o.Drain < o.RequestTimeout {
		return engine.BadOption("Drain", o.Drain, fmt.Sprintf("at least RequestTimeout (%s)", o.RequestTimeout))
	}
	if o.FirstPoll > o.PollInterval {
		return engine.BadOption("FirstPoll", o.FirstPoll, fmt.Sprintf("at most PollInterval (%s)", o.PollInterval))
	}
	if o.Retry.MaxDelay < o.Retry.Delay {
		return engine.BadOption("Retry.MaxDelay", o.Retry.MaxDelay, fmt.Sprintf("at least Retry.Delay (%s)", o.Retry.Delay))
	}
	if o.Retry.QuickRetries > 0 && o.Retry.QuickRetryPause > o.ClaimTTL-o.claimMargin()-o.RequestTimeout {
		return engine.BadOption("Retry.QuickRetryPause", o.Retry.QuickRetryPause,
			fmt.Sprintf("to fit into ClaimTTL (%s) beside a request of RequestTimeout (%s) and its margin (%s)", o.ClaimTTL, o.RequestTimeout, o.claimMargin()))
	}
	if o.Observer != nil && isnil.Is(o.Observer) {
		return engine.BadOption("Observer", nil, "an observer, or none")
	}
	for i, each := range o.Observers {
		if isnil.Is(each) {
			return engine.BadOption(fmt.Sprintf("Observers[%d]", i), nil, "an observer")
		}
	}
	return nil
}

// engineOptions returns the options for the engine.
func (o Options) engineOptions() engine.Options {
	return engine.Options{
		Strategy: o.Strategy, RequestTimeout: o.RequestTimeout, Margin: o.claimMargin(), ClaimTTL: o.ClaimTTL,
		FirstPoll: o.FirstPoll, PollInterval: o.PollInterval, ScanInterval: o.ScanInterval,
		Budget: o.Retry.Budget, BudgetOf: o.budget, QuickRetry: o.quickRetry, RetryDelay: o.retryDelay, Policy: o.Policy,
		ResendAtRiskOfExecutingTwice: o.ResendAtRiskOfExecutingTwice,
		Pool:                         o.Pool, StatusConnections: o.StatusConnections, MaxStreams: o.Streams, ClaimLimit: o.ClaimLimit,
		Instance: o.Instance, Host: hostName(), Version: release.Running(),
		Drain: o.Drain, Retention: o.Retention, StuckAfter: o.StuckAfter, IdlePause: o.Rest,
		NonDefaults: o.nonDefaults(),
	}
}

// instanceName returns a name that no other process has.
func instanceName() string {
	name := hostName()
	if name == "" {
		name = "host"
	}
	const room = 32 // for the process's number and the random word
	return fmt.Sprintf("%s-%d-%s", batch.Excerpt(name, batch.MaxInstanceLen-room), os.Getpid(), rand.Text()[:8])
}

// hostName returns the name of this machine, or "".
func hostName() string {
	name, err := os.Hostname()
	name = batch.Excerpt(name, batch.MaxInstanceLen)
	if err != nil || batch.CheckText("host name", name, batch.MaxInstanceLen) != nil {
		return ""
	}
	return name
}
