package canton

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The defaults of [Options], which say where each comes from.
const (
	DefaultName                = "canton"
	DefaultDeduplicationPeriod = 7 * 24 * time.Hour
	DefaultLateArrival         = 30 * time.Second
	DefaultGrace               = 30 * time.Second
	DefaultLookBack            = 10_000
	DefaultIdleWait            = 250 * time.Millisecond
	DefaultPageLimit           = 200
	DefaultMaxBody             = 10 << 20
	DefaultMaxResponse         = 10 << 20
	DefaultStreamSilence       = 150 * time.Second
)

// Options are the options of [New]. The zero value of each field is its default.
type Options struct {
	// Name of the network, by which a database knows its ledger. Defaults to "canton".
	Name string

	// UserID is the Ledger API user. It is part of the change id, so that it must not
	// change while batches are open. May be "" only where the token names the user
	// (docs/ledgers/canton.md#submissions, docs/ledgers/canton.md#authorization). Defaults to "".
	UserID string

	// Token is asked for a bearer token before every request; "" sends none. It may be
	// called concurrently and should keep a token until shortly before it expires. Its
	// tokens and its errors never show. Defaults to no token.
	Token func(ctx context.Context) (string, error)

	// Client sends the requests; use it for proxies and client certificates. It is
	// copied: redirects are never followed and cookies not kept, whatever it says. Its
	// timeout, if any, counts beside the context's, and ends streams too. Defaults to a
	// client of its own with a bound of 5 s on dialling and on the TLS handshake, and
	// no proxy.
	Client *http.Client
	// TLSConfig is that of the default client; not allowed beside Client. Defaults to
	// the system's roots.
	TLSConfig *tls.Config

	// DeduplicationPeriod is how long the participant keeps a command from taking
	// effect twice; it goes out with every submission and is Traits.ResendHarmlessFor.
	// At least 1 s and longer than LateArrival; a participant refuses more than its
	// max-deduplication-duration, which the client reports as a misconfiguration.
	// Defaults to 7 days, the participant's own default (docs/ledgers/canton.md#deduplication).
	DeduplicationPeriod time.Duration
	// LateArrival is how long after its connection ended a POST may still pass the
	// participant's deduplication: its request timeout, 20 s, and a margin
	// (docs/ledgers/canton.md#errors). Defaults to 30 s.
	LateArrival time.Duration
	// Grace is how long after a submission a missing completion means nothing. What is
	// sent again while it still runs is answered SUBMISSION_ALREADY_IN_FLIGHT and does
	// no harm. Defaults to 30 s.
	Grace time.Duration

	// DecidedWithin is how long after it passed deduplication a submission has its
	// completion, or never takes effect: the synchronizer's ledger time tolerance, its
	// confirmation and mediator timeouts (60 s, 30 s and 30 s by default), and how far the
	// participant may lag behind. It follows from settings that the client cannot see and
	// is no promise of Canton's (docs/ledgers/canton.md#after-a-crash), so that nothing is assumed:
	// without it a batch that was refused at the door, used its budget up, or is out of its
	// deduplication period, while an attempt is in doubt and the last one has no
	// completion, needs a person's decision ([Client.Resolve]). Auto-batching with a budget
	// should set it. Defaults to 0, no such evidence.
	DecidedWithin time.Duration

	// LookBack is from how far before the ledger's end completions are read for a
	// batch without batch.Attempt.Prepared, in offsets of the whole participant. What
	// completed before is not found. Defaults to 10,000.
	LookBack int64
	// IdleWait is how long the participant waits for more completions before it
	// answers: a participant that takes longer to read the next one seems to have none.
	// For evidence it waits 20 times as long. At least 1 ms. Defaults to 250 ms.
	IdleWait time.Duration
	// PageLimit is the participant's http-list-max-elements-limit, or less
	// (docs/ledgers/canton.md#completions). The client halves it where the participant's is
	// smaller. Defaults to 200.
	PageLimit int

	// PollOnly makes it open no WebSocket streams: Traits.Streams is false. Defaults to
	// false.
	PollOnly bool
	// StreamSilence is after how long without a frame a stream counts as broken; a
	// participant sends a checkpoint a minute on an idle one. Defaults to 150 s.
	StreamSilence time.Duration

	// MaxBody is the largest request in bytes, the command and what the client adds to
	// it. Defaults to 10 MiB (docs/ledgers/canton.md#limits).
	MaxBody int
	// MaxResponse bounds what is read of one answer or frame, in bytes. Defaults to 10 MiB.
	MaxResponse int64
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
		{"DeduplicationPeriod", &c.DeduplicationPeriod, DefaultDeduplicationPeriod},
		{"LateArrival", &c.LateArrival, DefaultLateArrival},
		{"Grace", &c.Grace, DefaultGrace},
		{"IdleWait", &c.IdleWait, DefaultIdleWait},
		{"StreamSilence", &c.StreamSilence, DefaultStreamSilence},
		{"DecidedWithin", &c.DecidedWithin, 0},
	} {
		if *d.value < 0 {
			return c, &batch.InputError{Field: "Options." + d.name, Value: d.value.String(), Want: "0 (default) or more"}
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	for _, d := range [...]struct {
		name  string
		value *int64
		def   int64
	}{{"LookBack", &c.LookBack, DefaultLookBack}, {"MaxResponse", &c.MaxResponse, DefaultMaxResponse}} {
		if *d.value < 0 {
			return c, &batch.InputError{Field: "Options." + d.name, Value: strconv.FormatInt(*d.value, 10), Want: "0 (default) or more"}
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	for _, d := range [...]struct {
		name  string
		value *int
		def   int
	}{{"PageLimit", &c.PageLimit, DefaultPageLimit}, {"MaxBody", &c.MaxBody, DefaultMaxBody}} {
		if *d.value < 0 {
			return c, &batch.InputError{Field: "Options." + d.name, Value: strconv.Itoa(*d.value), Want: "0 (default) or more"}
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	return c, c.check()
}

// check looks at options that have their defaults.
func (o *Options) check() error {
	switch {
	case o.DeduplicationPeriod < time.Second || o.DeduplicationPeriod <= o.LateArrival:
		return &batch.InputError{
			Field: "Options.DeduplicationPeriod", Value: o.DeduplicationPeriod.String(),
			Want: "at least 1s and more than LateArrival (" + o.LateArrival.String() + ")",
		}
	case o.IdleWait < time.Millisecond:
		return &batch.InputError{Field: "Options.IdleWait", Value: o.IdleWait.String(), Want: "at least 1ms"}
	case o.UserID != "" && !isUserID(o.UserID):
		return &batch.InputError{
			Field: "Options.UserID", Value: batch.Excerpt(o.UserID, 64), Want: "1 to 128 letters, digits and @^$.!`-#+'~_|:()",
		}
	case o.Client != nil && o.TLSConfig != nil:
		return &batch.InputError{Field: "Options.TLSConfig", Want: "nil where Options.Client is set: it belongs into the client's transport"}
	}
	return nil
}

// httpClient makes the client that requests are sent with.
func (o *Options) httpClient() *http.Client {
	var c http.Client
	if o.Client != nil {
		c = *o.Client
	} else {
		c.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     o.TLSConfig.Clone(),
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 64,
			// Less than the 60 s after which the participant's HTTP server closes a silent
			// connection: a command that is posted into a closing one is in doubt for no reason.
			IdleConnTimeout: 30 * time.Second,
		}
	}
	c.Jar = nil
	// A redirect that is followed is a second POST that nobody counted.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// endpoint is where a participant's resources are.
type endpoint struct{ submit, completions, ledgerEnd, pruned string }

// parseEndpoint never shows a URL that it refuses, for it may hold a password.
func parseEndpoint(s string) (endpoint, error) {
	refuse := func(want string) (endpoint, error) {
		return endpoint{}, &batch.InputError{Field: "url", Want: want}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return refuse("an http or https URL with a host, such as http://localhost:7575")
	case !validPort(u.Port()):
		return refuse("a port from 1 to 65535")
	case u.User != nil:
		return refuse("no user or password in the URL; Options.Token carries authorization")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return refuse("no query and no fragment in the URL")
	}
	at := func(path string) string { return u.JoinPath("v2", path).String() }
	return endpoint{
		submit: at("commands/async/submit"), completions: at("commands/completions"),
		ledgerEnd: at("state/ledger-end"), pruned: at("state/latest-pruned-offsets"),
	}, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || (err == nil && n > 0)
}
