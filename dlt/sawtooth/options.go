package sawtooth

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
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

	// Fallbacks are the base URLs of further nodes of the same network. The client submits to
	// one when the nodes before it cannot be reached. At most 63.
	Fallbacks []string

	// Client sends the requests; use it for proxies, client certificates and tokens that
	// change. The client works on a copy that never follows redirects and keeps no cookies.
	// Its timeout, if any, counts beside the context's. Defaults to a client with a bound of 5
	// s on dialling and on the TLS handshake, and no proxy.
	Client *http.Client
	// TLSConfig is for the default client; not allowed beside Client. Defaults to the system's
	// roots.
	TLSConfig *tls.Config
	// Header is sent with every request, for proxies that want authorization. Its values never
	// appear in errors. Defaults to none.
	Header http.Header

	// Grace is how long after a submission UNKNOWN still means nothing: at least
	// 30 s and a block interval (docs/ledgers/sawtooth.md#statuses). Defaults to 60 s.
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
	// several leave in one run; 1 means one at a time. Nodes have no bound
	// (docs/ledgers/sawtooth.md#submitting), but they check a whole list while others wait.
	// Defaults to [DefaultMaxList].
	MaxList int

	// NoEvents keeps the client from subscribing to the node's events, so that it only polls:
	// for proxies that let no websocket through. Traits.Streams is then false.
	NoEvents bool
	// KeepAlive is the time between two pings on the websocket. The answer must come within
	// the same time; nodes never ping (docs/ledgers/sawtooth.md#events). Defaults to 15 s.
	KeepAlive time.Duration

	// Receipts fetches the receipts of committed transactions and fills in
	// [batch.Status].Receipts. Data is then the node's receipt, a JSON document with data,
	// events and state_changes (docs/ledgers/sawtooth.md#receipts-and-lookups), or nothing if
	// it is longer than 64 KiB. This costs space, and two more requests for each batch, once,
	// before its commit is reported, on the five threads that serve all clients of the node.
	// If the receipts do not come within 5 s, the commit is reported without them. Defaults to
	// false. INVALID has the processor's message and data anyway.
	Receipts bool

	// MaxBody is the node's client_max_size in bytes. Defaults to [DefaultMaxBody].
	MaxBody int
	// MaxResponse bounds the part of an answer that is read, in bytes. Defaults to 10 MiB.
	MaxResponse int64
}

// withDefaults returns a copy with every default filled in.
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
		{"Grace", &c.Grace, DefaultGrace},
		{"ResendQuiet", &c.ResendQuiet, DefaultResendQuiet},
		{"Settle", &c.Settle, DefaultSettle},
		{"Vanish", &c.Vanish, 0},
		{"KeepAlive", &c.KeepAlive, DefaultKeepAlive},
	} {
		if *d.value < 0 {
			return c, &batch.InputError{Field: "Options." + d.name, Value: d.value.String(), Want: "0 (default) or more"}
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.MaxBody < 0 || c.MaxResponse < 0 {
		return c, &batch.InputError{
			Field: "Options.MaxBody, Options.MaxResponse",
			Value: strconv.Itoa(c.MaxBody) + ", " + strconv.FormatInt(c.MaxResponse, 10), Want: "0 (default) or more",
		}
	}
	if c.MaxList < 0 {
		return c, &batch.InputError{Field: "Options.MaxList", Value: strconv.Itoa(c.MaxList), Want: "0 (default) or more"}
	}
	if c.MaxList == 0 {
		c.MaxList = DefaultMaxList
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.Client != nil && c.TLSConfig != nil {
		return c, &batch.InputError{Field: "Options.TLSConfig", Want: "nil where Options.Client is set: it belongs into the client's transport"}
	}
	if c.SingleValidator && len(c.Fallbacks) > 0 {
		return c, &batch.InputError{Field: "Options.SingleValidator", Value: "true", Want: "false where Options.Fallbacks names further nodes"}
	}
	if len(c.Fallbacks) > maxEndpoints-1 {
		return c, &batch.InputError{Field: "Options.Fallbacks", Value: strconv.Itoa(len(c.Fallbacks)), Want: "at most 63"}
	}
	c.Header = c.Header.Clone()
	return c, checkHeader(c.Header)
}

// checkHeader refuses, at the start, headers that would fail with every request, and headers
// that the protocol fixes. The error never shows a value.
func checkHeader(h http.Header) error {
	for name, values := range h {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Accept-Encoding", "Expect", "Connection", "Host", "Cookie":
			return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: "no header that the client sets itself or never sends"}
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: "the name of a header"}
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }) {
				return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: "a value without control characters"}
			}
		}
	}
	return nil
}

// httpClient makes the client for all requests.
func (o *Options) httpClient() *http.Client {
	var c http.Client
	if o.Client != nil {
		c = *o.Client
	} else {
		c.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     o.TLSConfig.Clone(),
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 64,
			// Less than the 75 s after which a node closes a silent connection: a batch that
			// is posted into a closing one is needlessly in doubt.
			IdleConnTimeout: 60 * time.Second,
		}
	}
	c.Jar = nil
	// To follow a redirect is a second POST that nobody counted.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// endpoint is one node.
type endpoint struct{ name, batches, statuses, transactions, receipts, subscriptions string }

// parseEndpoint never shows a URL that it refuses: the URL may hold a password.
func parseEndpoint(field, s string) (endpoint, error) {
	refuse := func(want string) (endpoint, error) {
		return endpoint{}, &batch.InputError{Field: field, Want: want}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return refuse("an http or https URL with a host, such as http://localhost:8008")
	case !validPort(u.Port()):
		return refuse("a port from 1 to 65535")
	case u.User != nil:
		return refuse("no user or password in the URL; Options.Header can carry authorization")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return refuse("no query and no fragment in the URL")
	}
	at := func(path string) string { return u.JoinPath(path).String() }
	return endpoint{
		name:    endpointName(u),
		batches: at("batches"), statuses: at("batch_statuses"), transactions: at("transactions"),
		receipts: at("receipts"), subscriptions: at("subscriptions"),
	}, nil
}

// endpointName returns the URL, or its digest if it is too long to be kept.
func endpointName(u *url.URL) string {
	if name := u.String(); len(name) <= maxEndpointName {
		return name
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(u.String())))
}

const maxEndpointName = 200 // see batch.Status

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || (err == nil && n > 0)
}

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
