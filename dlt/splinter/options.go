package splinter

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// The defaults of [Options], whose comments give the reasons.
const (
	DefaultName                  = "splinter"
	DefaultLateArrival           = 660 * time.Second
	DefaultCoordinatorTimeout    = 30 * time.Second
	DefaultStartingTimeout       = 60 * time.Second
	DefaultClockMargin           = 10 * time.Second
	DefaultProbeInterval         = 5 * time.Second
	DefaultStreamLease           = 30 * time.Second
	DefaultMaxInFlightPerService = 30
	DefaultMaxBody               = 64 << 20
	DefaultMaxResponse           = 10 << 20
)

// idleTimeout is how long an unused connection is kept. It is less than the 5 s after which a node
// closes it (docs/ledgers/splinter.md#services-tokens-and-connections), since a batch that is
// posted into a closing one is needlessly in doubt.
const idleTimeout = 3 * time.Second

// Options are the options of [New]. The zero value of each field is its default.
type Options struct {
	// Name of the network; a database knows its ledger by it. Defaults to "splinter".
	Name string

	// Node returns the base URL of the node that runs a service; "" means the url of New. With
	// scabbard version 2 services should be coordinators. Node is pure and quick. A service must
	// keep its node while attempts of its batches are in doubt: another node's "unknown" proves
	// nothing. Defaults to one node for all services.
	Node func(service batch.ServiceID) string

	// Token authorizes the requests. Defaults to none.
	Token TokenSource

	// Client sends the requests; use it for proxies and client certificates. The client works
	// on a copy that never follows redirects and keeps no cookies, and whose [*http.Transport]
	// keeps idle connections for 3 s at most. Its timeout, if any, counts in addition to the
	// context's, but not for events. Defaults to a client with a bound of 5 s on dialling and
	// on the TLS handshake, and no proxy.
	Client *http.Client
	// TLSConfig is for the default client; not allowed together with Client. Defaults to the
	// system's roots.
	TLSConfig *tls.Config
	// Header is sent with every request, for proxies. Its values never appear in errors. If
	// Token is set, Token sets Authorization. Defaults to none.
	Header http.Header

	// LateArrival is how long a POST may still be executed after its connection ended. It depends
	// on the node, not on the circuit: a batch that nobody executes holds its service for 300 s,
	// requests about that batch hold the node's threads, and POSTs to any circuit of the node wait
	// until the threads are free, and then perhaps for a second such batch. Real nodes executed
	// given-up POSTs 3 min 16 s later, in another order. Each doubt waits for LateArrival, and so
	// does its lane. Raise it if more than a few batches wait in a queue; nothing shorter than the
	// default, 660 s, was shown to be safe.
	LateArrival time.Duration
	// CoordinatorTimeout is the nodes' timeout of two-phase commit
	// (docs/ledgers/splinter.md#statuses): a batch that is Valid for twice as long was
	// probably rolled back. Defaults to 30 s.
	CoordinatorTimeout time.Duration
	// StartingTimeout is how long a service that its node does not know counts as starting. After
	// that it is a misconfiguration (docs/ledgers/splinter.md#submitting, 404). Defaults to 60 s.
	StartingTimeout time.Duration
	// MaxInFlightPerService bounds the accepted batches that are not final, for a strategy
	// with several in flight: a node forgets all but the last 100, and refuses more than 30 in
	// its queue (docs/ledgers/splinter.md#statuses, docs/ledgers/splinter.md#back-pressure).
	// Defaults to 30.
	MaxInFlightPerService int

	// Journal stores the transactions that Events saw committed, for Resolve. Any number of
	// processes may share it. Defaults to none: then the outcome of a batch that its node
	// forgot can rarely be proved.
	Journal dlt.Journal
	// Replay makes the client ask a node for all its commits whenever a stream is opened. The node
	// replays some of them: ids that were committed while no stream was open, which prove as much
	// as ids in the journal (docs/ledgers/splinter.md#events). For each 64 of them a node reads
	// all its receipts, so use Replay only for services with a short history, and for nodes with
	// an LMDB store (0.4 and 0.5), which refuse a subscription to new events alone. Defaults to
	// false.
	Replay bool
	// StateNeverReturns declares that every committed batch changes the state of its service, and
	// that no later batches ever restore an earlier state: each batch leaves something that stays,
	// for example a counter, or its own record. Then the log in the Journal stays complete over a
	// crash of the node if the hash of the state is the same after the crash, which settles the
	// queued batches. The client asks for that hash after each event. After a stream broke, new
	// batches wait until it is open again, for at most a minute once the node answers. If the
	// declaration is false, a batch can be executed twice. Defaults to false: a lock that is taken
	// and released leaves the state as it was.
	StateNeverReturns bool
	// Evidence looks for the effect of a batch in the state, if all other proofs fail: it returns
	// Committed, NotCommitted, or CannotTell. It is called after LateArrival, about a batch that
	// is not waiting at its node. So its finding is final: a batch that has left no trace by then
	// will never leave one. Evidence must look for something that only this batch leaves behind,
	// and that nobody removes; a wrong NotCommitted makes the engine execute the batch twice.
	// After an error Evidence is called again. It may be called concurrently, and must keep
	// neither d.Payload nor d.Witnesses. Defaults to none.
	Evidence func(ctx context.Context, s State, d dlt.Doubt) (dlt.Evidence, error)
	// ClockMargin is the largest difference between clocks, and the longest time that a write to
	// the journal takes. Evidence within the margin does not count. Defaults to 10 s.
	ClockMargin time.Duration
	// ProbeInterval is the time between the probes of an event stream. Defaults to 5 s.
	ProbeInterval time.Duration
	// StreamLease is how long another process waits, after a stream's writer ended, before it
	// writes the stream's journal. Defaults to 30 s.
	StreamLease time.Duration

	// Families are the families that the services execute, in the versions that they know;
	// Check refuses all others. A node accepts a batch of another family with a 202, leaves it
	// Pending for ever and stalls its service for 300 s (0.6.14, for "sabre" 9.9 as for an
	// unknown family). Defaults to sabre 0.5, 0.6 and 1, the only ones that scabbard itself
	// executes.
	Families []Family
	// MaxBody bounds the body of a POST, in bytes; nodes have no bound. Defaults to 64 MiB.
	MaxBody int
	// MaxResponse bounds each piece of an answer, such as an element of a list, and each frame of
	// a stream, in bytes. An answer may have any number of pieces, and is not kept. It bounds the
	// receipts of an answer, too. Defaults to 10 MiB.
	MaxResponse int64
}

// Family is a family of transactions and the versions in which services execute it.
type Family struct {
	Name string
	// Versions are compared as text. An empty list means any version, which no scabbard
	// executes.
	Versions []string
}

// isExecutable reports whether families has this family and version.
func isExecutable(families []Family, name, version string) bool {
	return slices.ContainsFunc(families, func(f Family) bool {
		return f.Name == name && (len(f.Versions) == 0 || slices.Contains(f.Versions, version))
	})
}

// withDefaults returns a copy with every default filled in.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := cmp.Or(
		wire.FillDefault("LateArrival", &c.LateArrival, DefaultLateArrival),
		wire.FillDefault("CoordinatorTimeout", &c.CoordinatorTimeout, DefaultCoordinatorTimeout),
		wire.FillDefault("StartingTimeout", &c.StartingTimeout, DefaultStartingTimeout),
		wire.FillDefault("ClockMargin", &c.ClockMargin, DefaultClockMargin),
		wire.FillDefault("ProbeInterval", &c.ProbeInterval, DefaultProbeInterval),
		wire.FillDefault("StreamLease", &c.StreamLease, DefaultStreamLease),
		wire.FillDefault("MaxBody", &c.MaxBody, DefaultMaxBody),
		wire.FillDefault("MaxResponse", &c.MaxResponse, DefaultMaxResponse),
		wire.FillDefault("MaxInFlightPerService", &c.MaxInFlightPerService, DefaultMaxInFlightPerService),
		wire.CheckTLS(c.Client, c.TLSConfig),
	); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.Families == nil {
		c.Families = []Family{{Name: "sabre", Versions: []string{"0.5", "0.6", "1"}}}
	}
	c.Families = slices.Clone(c.Families)
	for i, f := range c.Families {
		c.Families[i].Versions = slices.Clone(f.Versions)
	}
	if c.Token != nil && c.Header.Get("Authorization") != "" {
		return c, &batch.InputError{Field: "Options.Header", Value: "Authorization", Want: "none where Options.Token is set"}
	}
	c.Header = c.Header.Clone()
	return c, wire.CheckHeader(c.Header, "Upgrade", protocolHeader)
}

// httpClient returns the client for all requests. direct is true if its transport
// is the library's own, which calls the trace hooks (see [wire.TraceRequest]).
func (o *Options) httpClient() (c *http.Client, direct bool) {
	c, direct = wire.NewClient(o.Client, wire.NewTransport(o.TLSConfig, idleTimeout)), wire.IsOwnTransport(o.Client)
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if t, own := c.Transport.(*http.Transport); own {
		if t.IdleConnTimeout <= 0 || t.IdleConnTimeout > idleTimeout {
			t = t.Clone()
			t.IdleConnTimeout = idleTimeout
			c.Transport = t
		}
	}
	return c, direct
}
