package splinter

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// The defaults of [Options], which say where each comes from.
const (
	DefaultName                  = "splinter"
	DefaultLateArrival           = 660 * time.Second
	DefaultCoordinatorTimeout    = 30 * time.Second
	DefaultStarting              = 60 * time.Second
	DefaultMargin                = 10 * time.Second
	DefaultProbeInterval         = 5 * time.Second
	DefaultStreamLease           = 30 * time.Second
	DefaultMaxInFlightPerService = 30
	DefaultMaxBody               = 64 << 20
	DefaultMaxResponse           = 10 << 20
)

// idle is how long a connection that nobody uses is kept: less than the 5 s after
// which a node closes it (docs/ledgers/splinter.md#services-tokens-and-connections), since a
// batch that is posted into a closing one is in doubt for no reason.
const idle = 3 * time.Second

// Options are the options of [New]. The zero value of each field is its default.
type Options struct {
	// Name of the network, by which a database knows its ledger. Defaults to "splinter".
	Name string

	// Node returns the base URL of the node that runs a service; "" is the url of New.
	// With scabbard version 2 services should be coordinators. It is pure and quick. A
	// service must keep its node while attempts of it are in doubt: another node's
	// "unknown" proves nothing. Defaults to the one node for every service.
	Node func(service batch.ServiceID) string

	// Token is what requests are authorized with. Defaults to none.
	Token TokenSource

	// Client sends the requests; use it for proxies and client certificates. It is
	// copied: redirects are never followed and cookies not kept, whatever it says, and
	// an [*http.Transport] keeps idle connections for 3 s at most. Its timeout, if any,
	// counts beside the context's, but not for events. Defaults to a client of its own
	// with a bound of 5 s on dialling and on the TLS handshake, and no proxy.
	Client *http.Client
	// TLSConfig is that of the default client; not allowed beside Client. Defaults to
	// the system's roots.
	TLSConfig *tls.Config
	// Header is sent with every request, for proxies. Its values never show in errors.
	// Authorization is Token's where that is set. Defaults to none.
	Header http.Header

	// LateArrival is how long after its connection ended a POST may still be executed. It
	// is the node's, not the circuit's: a batch that nobody executes holds its service for
	// 300 s, requests about that keep the node's threads, and POSTs to any of its circuits
	// wait behind them, and may meet a second such batch. Real nodes executed POSTs that
	// had been given up 3 min 16 s later, in another order. Each doubt waits so long, and
	// its lane with it. Raise it where more than a few batches wait in a queue; nothing
	// shorter than the default, 660 s, was shown to be safe.
	LateArrival time.Duration
	// CoordinatorTimeout is the one of two-phase commit on the nodes
	// (docs/ledgers/splinter.md#statuses): a batch that is Valid for twice as long was probably
	// rolled back. Defaults to 30 s.
	CoordinatorTimeout time.Duration
	// Starting is how long a service that its node does not know may be starting;
	// after that it is a misconfiguration (docs/ledgers/splinter.md#submitting, 404). Defaults
	// to 60 s.
	Starting time.Duration
	// MaxInFlightPerService bounds what is accepted and not final, where a strategy
	// has several under way: a node forgets all but the last 100, and refuses more
	// than 30 in its queue (docs/ledgers/splinter.md#statuses,
	// docs/ledgers/splinter.md#back-pressure). Defaults to 30.
	MaxInFlightPerService int

	// Journal keeps the transactions that Events saw committed, for Resolve. It may be
	// shared with any number of processes. Defaults to none: then a batch that its
	// node forgot can rarely be proved one or the other.
	Journal dlt.Journal
	// Replay asks a node for all that it ever committed whenever a stream is opened. It
	// replays some of it: ids that were committed while nobody listened, which are as
	// good as any in the journal (docs/ledgers/splinter.md#events). For each 64 of them a node
	// reads all of its receipts, so that this is for services with a short history; and for
	// nodes with an LMDB store (0.4 and 0.5), which refuse a subscription from now on. Defaults
	// to false.
	Replay bool
	// StateNeverReturns says that every batch that is committed changes the state of its
	// service, and that no later ones ever bring back a state that was there before: each
	// leaves something that stays, a counter, say, or a record of its own. Then the log in
	// the Journal goes on over a crash of the node where the hash of the state is the same
	// after it, which settles what was queued. It costs a question about that hash for each
	// event; and after a stream broke new batches wait until it is open again, for a minute at
	// most once the node answers. Where it is not so, a batch can be executed twice. Defaults to false: a lock
	// that is taken and released leaves the state as it was.
	StateNeverReturns bool
	// Evidence says whether the effect of a batch is in the state, where nothing else
	// tells: Committed, NotCommitted, or CannotTell. It is asked after LateArrival, about a
	// batch that is not waiting at its node, so that what it reads is final: a batch of
	// which it finds no trace will leave none. It must look for something that this batch
	// alone leaves behind, and that nobody removes; a NotCommitted that is wrong executes
	// the batch twice. An error is asked again. It may be called concurrently, and keeps
	// neither d.Payload nor d.Witnesses. Defaults to none.
	Evidence func(ctx context.Context, s State, d dlt.Doubt) (dlt.Evidence, error)
	// Margin is what clocks and writes of the journal may be apart; evidence that is
	// closer is none. Defaults to 10 s.
	Margin time.Duration
	// ProbeInterval is the time between the probes of an event stream. Defaults to 5 s.
	ProbeInterval time.Duration
	// StreamLease is how long after its end another process waits before it writes the
	// journal of a stream. Defaults to 30 s.
	StreamLease time.Duration

	// Families that the services execute, in the versions that they know; Check refuses any
	// other. A node takes such a batch with a 202, leaves it Pending for ever and stalls its
	// service for 300 s (0.6.14, for "sabre" 9.9 as for a family that it does not know).
	// Defaults to sabre 0.5, 0.6 and 1, all that scabbard itself executes.
	Families []Family
	// MaxBody bounds a POST, in bytes; nodes have no bound. Defaults to 64 MiB.
	MaxBody int
	// MaxResponse bounds what is read of one answer or event, in bytes. Defaults to 10 MiB.
	MaxResponse int64
}

// Family is a family of transactions and the versions in which it is executed.
type Family struct {
	Name string
	// Versions are compared as they are. None stands for any, which no scabbard executes.
	Versions []string
}

// executes reports whether one of the families is this.
func executes(families []Family, name, version string) bool {
	return slices.ContainsFunc(families, func(f Family) bool {
		return f.Name == name && (len(f.Versions) == 0 || slices.Contains(f.Versions, version))
	})
}

// withDefaults returns a copy that has no zero values left.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	for _, d := range [...]struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"LateArrival", &c.LateArrival, DefaultLateArrival},
		{"CoordinatorTimeout", &c.CoordinatorTimeout, DefaultCoordinatorTimeout},
		{"Starting", &c.Starting, DefaultStarting},
		{"Margin", &c.Margin, DefaultMargin},
		{"ProbeInterval", &c.ProbeInterval, DefaultProbeInterval},
		{"StreamLease", &c.StreamLease, DefaultStreamLease},
	} {
		if *d.value < 0 {
			return c, &batch.InputError{Field: "Options." + d.name, Value: d.value.String(), Want: "0 (default) or more"}
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.MaxBody < 0 || c.MaxResponse < 0 || c.MaxInFlightPerService < 0 {
		return c, &batch.InputError{
			Field: "Options.MaxBody, Options.MaxResponse, Options.MaxInFlightPerService",
			Value: strconv.Itoa(c.MaxBody) + ", " + strconv.FormatInt(c.MaxResponse, 10) + ", " + strconv.Itoa(c.MaxInFlightPerService),
			Want:  "0 (default) or more",
		}
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.MaxInFlightPerService == 0 {
		c.MaxInFlightPerService = DefaultMaxInFlightPerService
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
	if c.Client != nil && c.TLSConfig != nil {
		return c, &batch.InputError{Field: "Options.TLSConfig", Want: "nil where Options.Client is set: it belongs into the client's transport"}
	}
	if c.Token != nil && c.Header.Get("Authorization") != "" {
		return c, &batch.InputError{Field: "Options.Header", Value: "Authorization", Want: "none where Options.Token is set"}
	}
	c.Header = c.Header.Clone()
	return c, checkHeader(c.Header)
}

// checkHeader refuses at the start what would fail with every request, and what
// the protocol fixes. The error never shows a value.
func checkHeader(h http.Header) error {
	for name, values := range h {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Accept-Encoding", "Expect", "Connection",
			"Upgrade", "Host", "Cookie", protocolHeader:
			return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: "no header that the client sets itself or never sends"}
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: "the name of a header"}
		}
		for _, v := range values {
			if !printable(v) {
				return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: "a value without control characters"}
			}
		}
	}
	return nil
}

func printable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f })
}

// httpClient makes the client that requests are sent with. direct says that its
// transport is net/http's own.
func (o *Options) httpClient() (c *http.Client, direct bool) {
	c = new(http.Client)
	if o.Client != nil {
		*c = *o.Client
	} else {
		c.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     o.TLSConfig.Clone(),
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 64,
		}
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if t, own := c.Transport.(*http.Transport); own {
		direct = true
		if t.IdleConnTimeout <= 0 || t.IdleConnTimeout > idle {
			t = t.Clone()
			t.IdleConnTimeout = idle
			c.Transport = t
		}
	}
	c.Jar = nil
	// A redirect that is followed is a second POST that nobody counted.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, direct
}
