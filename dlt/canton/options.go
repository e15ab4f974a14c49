package canton

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// The defaults of [Options], whose comments give the reasons.
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
	// Name of the network; a database knows its ledger by it. Defaults to "canton".
	Name string

	// UserID is the Ledger API user. It is part of the change id, so it must not change while
	// batches are open. It may be "" only if the token names the user
	// (docs/ledgers/canton.md#submissions, docs/ledgers/canton.md#authorization). Defaults to
	// "".
	UserID string

	// Token returns a bearer token, and is called before every request; "" sends none. It may
	// be called concurrently and should keep a token until shortly before it expires. Its
	// tokens and its errors are never shown. Defaults to no token.
	Token func(ctx context.Context) (string, error)

	// Header is sent with every request, for proxies and gateways that want authorization of their
	// own. Its values never appear in errors. If Token is set, Token sets Authorization. Defaults
	// to none.
	Header http.Header

	// Client sends the requests; use it for proxies and client certificates. The client works on a
	// copy that never follows redirects and keeps no cookies. Its timeout, if any, counts in
	// addition to the context's, and ends streams too. Defaults to a client with a bound of 5 s on
	// dialling and on the TLS handshake, and no proxy.
	Client *http.Client
	// TLSConfig is for the default client; not allowed together with Client. Defaults to the
	// system's roots.
	TLSConfig *tls.Config

	// DeduplicationPeriod is how long the participant keeps a command from taking effect twice.
	// The client sends it with every submission, and Traits.ResendHarmlessFor has its value. It
	// must be at least 1 s and longer than LateArrival. A participant refuses more than its
	// max-deduplication-duration, which the client reports as a misconfiguration. Defaults to 7
	// days, the participant's own default (docs/ledgers/canton.md#deduplication).
	DeduplicationPeriod time.Duration
	// LateArrival is how long a POST may still pass the participant's deduplication after its
	// connection ended: its request timeout, 20 s, and a margin
	// (docs/ledgers/canton.md#errors). Defaults to 30 s.
	LateArrival time.Duration
	// Grace is for how long after a submission a missing completion proves nothing. A command that
	// is sent again while it still runs is answered SUBMISSION_ALREADY_IN_FLIGHT and does no harm.
	// Defaults to 30 s.
	Grace time.Duration

	// DecidedWithin is the time after deduplication within which a submission has its
	// completion, or never takes effect: the synchronizer's ledger time tolerance, its
	// confirmation and mediator timeouts (60 s, 30 s and 30 s by default), and the largest lag
	// of the participant. It depends on settings that the client cannot see and is no promise
	// of Canton's (docs/ledgers/canton.md#after-a-crash), so there is no default. Without it a
	// batch needs a person's decision if it was refused on submission, used up its budget, or
	// is past its deduplication period, while an attempt is in doubt and the last one has no
	// completion ([Client.Resolve]). Set it for auto-batching with a budget. Defaults to 0, no
	// such evidence.
	DecidedWithin time.Duration

	// LookBack is how far before the ledger's end the client starts to read completions for a
	// batch without batch.Attempt.Prepared, in offsets of the whole participant. It does not
	// find earlier completions. Defaults to 10,000.
	LookBack int64
	// IdleWait is how long the participant waits for further completions before it answers without
	// them: a completion that it needs longer to read is found by a later question. For evidence
	// the participant waits 20 times as long. At least 1 ms. Defaults to 250 ms.
	IdleWait time.Duration
	// PageLimit is the participant's http-list-max-elements-limit, or less
	// (docs/ledgers/canton.md#completions). The client halves it if the participant's is
	// smaller. Defaults to 200.
	PageLimit int

	// PollOnly makes the client open no WebSocket streams: Traits.Streams is false. Defaults
	// to false.
	PollOnly bool
	// StreamSilence is how long a stream may have no frame before it counts as broken; on an idle
	// stream a participant sends a checkpoint each minute. Defaults to 150 s.
	StreamSilence time.Duration

	// MaxBody is the largest request in bytes: the command and the client's own fields.
	// Defaults to 10 MiB (docs/ledgers/canton.md#limits).
	MaxBody int
	// MaxResponse bounds each piece of an answer, such as an element of a list, and each frame of
	// a stream, in bytes. An answer may have any number of pieces, and is not kept.
	// Defaults to 10 MiB.
	MaxResponse int64
}

// withDefaults returns a copy with every default filled in.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := cmp.Or(
		wire.FillDefault("DeduplicationPeriod", &c.DeduplicationPeriod, DefaultDeduplicationPeriod),
		wire.FillDefault("LateArrival", &c.LateArrival, DefaultLateArrival),
		wire.FillDefault("Grace", &c.Grace, DefaultGrace),
		wire.FillDefault("IdleWait", &c.IdleWait, DefaultIdleWait),
		wire.FillDefault("StreamSilence", &c.StreamSilence, DefaultStreamSilence),
		wire.FillDefault("DecidedWithin", &c.DecidedWithin, 0),
		wire.FillDefault("LookBack", &c.LookBack, DefaultLookBack),
		wire.FillDefault("MaxResponse", &c.MaxResponse, DefaultMaxResponse),
		wire.FillDefault("PageLimit", &c.PageLimit, DefaultPageLimit),
		wire.FillDefault("MaxBody", &c.MaxBody, DefaultMaxBody),
	); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	return c, c.check()
}

// check refuses invalid options. The defaults are filled in already.
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
	}
	o.Header = o.Header.Clone()
	return cmp.Or(wire.CheckTLS(o.Client, o.TLSConfig), wire.CheckHeader(o.Header, "Upgrade", "Sec-Websocket-Protocol"))
}

// httpClient returns the client for all requests.
func (o *Options) httpClient() *http.Client {
	// A connection is kept for less than the 60 s after which the participant's HTTP server closes
	// a silent one: a command that is posted into a closing connection is needlessly in doubt.
	return wire.NewClient(o.Client, wire.NewTransport(o.TLSConfig, 30*time.Second))
}

// endpoint has the URLs of a participant's resources, and the part of its own URL that may be
// shown.
type endpoint struct {
	submitURL, completionsURL, ledgerEndURL, prunedURL string
	shownURL                                           string
	secrets                                            []string
}

// parseEndpoint reads a participant's URL. An error never shows the URL, which may contain a
// password.
func parseEndpoint(s string) (endpoint, error) {
	u, err := wire.ParseURL("url", s, "http://localhost:7575", "Options.Token carries")
	if err != nil {
		return endpoint{}, err
	}
	at := func(path string) string { return u.JoinPath("v2", path).String() }
	return endpoint{
		shownURL: redact.ShownURL(u) + "/v2/commands/async/submit", secrets: redact.URLSecrets(u),
		submitURL: at("commands/async/submit"), completionsURL: at("commands/completions"),
		ledgerEndURL: at("state/ledger-end"), prunedURL: at("state/latest-pruned-offsets"),
	}, nil
}
