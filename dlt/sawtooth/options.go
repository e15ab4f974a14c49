package sawtooth

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// The defaults of [Options], whose comments give the reasons.
const (
	DefaultName        = "sawtooth"
	DefaultGrace       = 60 * time.Second
	DefaultResendQuiet = 1260 * time.Second
	DefaultSettle      = 30 * time.Second
	DefaultMaxResponse = 10 << 20
	DefaultMaxList     = 100
	DefaultKeepAlive   = 15 * time.Second
)

// Options are the options of [New]. The zero value of each field is its default.
type Options struct {
	// Name of the network; a database knows its ledger by it. Defaults to "sawtooth".
	Name string

	// Fallbacks are the base URLs of further nodes of the same network. The client submits to a
	// fallback when the nodes before it cannot be reached, or leave a batch in doubt again and
	// again. At most 63.
	Fallbacks []string

	// Client sends the requests; use it for proxies, client certificates and tokens that
	// change. The client works on a copy that never follows redirects and keeps no cookies.
	// Its timeout, if any, counts in addition to the context's. Defaults to a client with a bound
	// of 5 s on dialling and on the TLS handshake, and no proxy.
	Client *http.Client
	// TLSConfig is for the default client; not allowed together with Client. Defaults to the
	// system's roots.
	TLSConfig *tls.Config
	// Header is sent with every request, for proxies that want authorization. Its values never
	// appear in errors. Defaults to none.
	Header http.Header

	// Grace is for how long after a submission UNKNOWN proves nothing: at least 30 s and a block
	// interval (docs/ledgers/sawtooth.md#statuses). Defaults to 60 s.
	Grace time.Duration
	// ResendQuiet is how long a node ignores the same batch after its last submission, plus a
	// margin (docs/ledgers/sawtooth.md#the-same-bytes-again). Defaults to 1260 s.
	ResendQuiet time.Duration
	// Settle is how long an INVALID may still become COMMITTED: a few block
	// intervals (docs/ledgers/sawtooth.md#statuses). Defaults to 30 s.
	Settle time.Duration

	// Vanish is how long a COMMITTED batch may still disappear: a few block intervals where
	// the consensus forks, such as PoET, or the developer mode with several validators (two
	// validators of Sawtooth 1.2.6 made two blocks of one number). Such a batch is in the pool
	// again without a PENDING notice (docs/ledgers/sawtooth.md#statuses). The engine does not
	// rewind a batch that it has recorded as committed. Defaults to 0, which is right for
	// PBFT, for Raft, and for the developer mode with one validator.
	Vanish time.Duration

	// SingleValidator declares that the network has one validator, behind the URL. With a
	// second validator of the developer mode, leave it false and set Vanish. Only with one
	// validator do conflicting batches take effect in the order of submission; then
	// Traits.KeepsOrder is true, which queuer.Pipelined needs. Several validators gossip
	// batches one by one, and the publisher of the next block uses its own order of arrival
	// (docs/ledgers/sawtooth.md#order). A batch that is parked for a dependency falls behind
	// (docs/ledgers/sawtooth.md#dependencies): depend on batches of the same service only. Not
	// allowed beside Fallbacks. Defaults to false.
	SingleValidator bool

	// MaxList is the largest number of batches of a service in one POST, where a strategy lets
	// several batches leave in one run; 1 means one batch in each POST. Nodes have no bound
	// (docs/ledgers/sawtooth.md#submitting), but other requests wait while they check a list.
	// Defaults to [DefaultMaxList].
	MaxList int

	// NoEvents keeps the client from subscribing to the node's events, so that it only polls: for
	// proxies that do not support websockets. Traits.Streams is then false.
	NoEvents bool
	// KeepAlive is the time between two pings on the websocket. The answer must come within
	// the same time; nodes never ping (docs/ledgers/sawtooth.md#events). Defaults to 15 s.
	KeepAlive time.Duration

	// Receipts fetches the receipts of committed transactions and fills in
	// [batch.Status].Receipts. Data is then the node's receipt, a JSON document with data,
	// events and state_changes (docs/ledgers/sawtooth.md#receipts-and-lookups), or nothing if
	// it is longer than 64 KiB. This costs space, and two more requests for each batch, once,
	// before its commit is reported, on the five threads that serve all clients of the node.
	// If the receipts do not come within 5 s, the commit is reported without them; a Runner asks
	// for them once more, 10 s later, and then waits for its RequestTimeout. Defaults to
	// false. INVALID has the processor's message and data anyway.
	Receipts bool

	// MaxBody is the node's client_max_size in bytes. Defaults to [DefaultMaxBody].
	MaxBody int
	// MaxResponse bounds each piece of an answer, such as an element of a list, in bytes. An
	// answer may have any number of pieces, and is not kept. It bounds the receipts of an answer,
	// too. Defaults to 10 MiB.
	MaxResponse int64
}

// withDefaults returns a copy with every default filled in.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := cmp.Or(
		wire.FillDefault("Grace", &c.Grace, DefaultGrace),
		wire.FillDefault("ResendQuiet", &c.ResendQuiet, DefaultResendQuiet),
		wire.FillDefault("Settle", &c.Settle, DefaultSettle),
		wire.FillDefault("Vanish", &c.Vanish, 0),
		wire.FillDefault("KeepAlive", &c.KeepAlive, DefaultKeepAlive),
		wire.FillDefault("MaxBody", &c.MaxBody, DefaultMaxBody),
		wire.FillDefault("MaxResponse", &c.MaxResponse, DefaultMaxResponse),
		wire.FillDefault("MaxList", &c.MaxList, DefaultMaxList),
		wire.CheckTLS(c.Client, c.TLSConfig),
	); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.SingleValidator && len(c.Fallbacks) > 0 {
		return c, &batch.InputError{Field: "Options.SingleValidator", Value: "true", Want: "false where Options.Fallbacks names further nodes"}
	}
	if len(c.Fallbacks) > maxEndpoints-1 {
		return c, &batch.InputError{Field: "Options.Fallbacks", Value: strconv.Itoa(len(c.Fallbacks)), Want: "at most 63"}
	}
	c.Header = c.Header.Clone()
	return c, wire.CheckHeader(c.Header)
}

// httpClient returns the client for all requests.
func (o *Options) httpClient() *http.Client {
	// A connection is kept for less than the 75 s after which a node closes a silent one: a batch
	// that is posted into a closing connection is needlessly in doubt.
	t := wire.NewTransport(o.TLSConfig, time.Minute)
	wire.EnableHTTP2(t)
	return wire.NewClient(o.Client, t)
}

// endpoint is one node. Its name is the part of its URL that may be shown.
type endpoint struct {
	name, batches, statuses, transactions, receipts, subscriptions string
	secrets                                                        []string
}

// parseEndpoint reads a node's URL. An error never shows the URL, which may contain a password.
func parseEndpoint(field, s string) (endpoint, error) {
	u, err := wire.ParseURL(field, s, "http://localhost:8008", "Options.Header can carry")
	if err != nil {
		return endpoint{}, err
	}
	at := func(path string) string { return u.JoinPath(path).String() }
	return endpoint{
		name: endpointName(u), secrets: redact.URLSecrets(u),
		batches: at("batches"), statuses: at("batch_statuses"), transactions: at("transactions"),
		receipts: at("receipts"), subscriptions: at("subscriptions"),
	}, nil
}

// endpointName returns the name of a node in answers and errors. If the name is too long to be
// stored, it returns a digest.
func endpointName(u *url.URL) string {
	name := redact.ShownURL(u)
	if len(name) <= maxEndpointName {
		return name
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
}

const maxEndpointName = 200 // the limit is explained at batch.Status

func parseEndpoints(first string, fallbacks []string) ([]endpoint, error) {
	e, err := parseEndpoint("url", first)
	if err != nil {
		return nil, err
	}
	out := []endpoint{e}
	for i, s := range fallbacks {
		if e, err = parseEndpoint(fmt.Sprintf("Options.Fallbacks[%d]", i), s); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
