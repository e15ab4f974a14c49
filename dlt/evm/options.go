package evm

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// The defaults of [Options], whose comments give the reasons.
const (
	DefaultLateArrival           = 30 * time.Second
	DefaultGrace                 = 30 * time.Second
	DefaultVanish                = 15 * time.Minute
	DefaultMaxInFlightPerService = 16
	DefaultMaxResponse           = 32 << 20
	DefaultBumpAfter             = 3
)

// idleTimeout is how long an unused connection is kept: less than the minute of most load
// balancers, because a transaction that is posted into a closing connection is needlessly in
// doubt.
const idleTimeout = 30 * time.Second

// maxIdleConns is how many unused connections to a node are kept: as many as a Runner has
// requests.
const maxIdleConns = 64

// Options are the options of [New]. The zero value of each field is its default.
type Options struct {
	// Name of the chain; a database knows its ledger by it. Defaults to "evm:" and the chain's
	// id.
	Name string
	// Genesis is the hash of block 0, 0x and 64 hex digits. Nothing is posted to a node of another
	// chain. Defaults to the block 0 of the first node that answers: then the client notices a
	// chain that was created again under the same id only while the process runs, and not after a
	// restart. A node that has removed block 0 is identified by the chain's id and a later block.
	Genesis string
	// Fallbacks are the URLs of further nodes of the same chain, 63 at most. The client leaves a
	// node for the next one if the node cannot be reached, does not answer within the time limit,
	// is busy (429) or refuses this client (401, 403), if its proxy fails (5xx), if it is behind
	// other nodes, or if it leaves a batch in doubt three times in a row. The client then prefers
	// the next node until it leaves that one. A node that was left comes after the
	// others for its Retry-After, 1 s at least, for 10 s if it did not answer, and for a minute if
	// it refused. Set Genesis, too: otherwise the first node that answers says
	// which chain it is.
	Fallbacks []string

	// Finality says when a block is deep. Defaults to the node's "finalized" block.
	Finality Finality

	// Client sends the requests; use it for proxies and client certificates. The client works
	// on a copy that never follows redirects and keeps no cookies, and whose [*http.Transport]
	// keeps 64 idle connections to a node at least. Its timeout, if any, counts in addition to the
	// context's. Defaults to a client with a bound of 5 s on dialling and on the TLS
	// handshake, and no proxy.
	Client *http.Client
	// TLSConfig is for the default client; not allowed together with Client. Defaults to the
	// system's roots.
	TLSConfig *tls.Config
	// Header is sent with every request, for example an Authorization. Its values never appear
	// in errors. Defaults to none.
	Header http.Header

	// LateArrival is how long a POST may still reach a node's pool after its connection ended:
	// a proxy may hold it back. Defaults to 30 s.
	LateArrival time.Duration
	// Grace is for how long after a submission the answer "no trace" proves nothing: a node that
	// was killed has its pool again after 10 s, and a node may try by itself for up to a minute to
	// add a transaction for which its pool had no room. A resend before that does no harm.
	// Defaults to 30 s.
	Grace time.Duration
	// Vanish is how long a Committed batch may still disappear, where Finality is [After] some
	// blocks. Defaults to 15 min. It is 0 for the other finalities.
	Vanish time.Duration
	// MaxInFlightPerService bounds the transactions of an account that are not final, for a
	// strategy with several in flight. Nodes are sure to keep 16 of an account in their pool,
	// and one of an account with code (EIP-7702). Defaults to 16.
	MaxInFlightPerService int

	// HeadInterval is how often the node is asked for the number of its last block. Each new block
	// then causes one question about all open batches, instead of questions about each batch by
	// its age: commits are seen sooner, and many batches cause fewer requests to a node. A quarter
	// of the time between blocks is a good value. Defaults to 0: no such questions.
	HeadInterval time.Duration

	// HeadSocket is the ws: or wss: address at which a node reports new blocks (eth_subscribe
	// newHeads). It needs HeadInterval, for which the time between blocks is a good value: the
	// node is asked only if it has reported no block for HeadInterval. If the answer is a new
	// block, the socket has failed to report it, and another connection is opened. Client and
	// Header are also used for the socket. Defaults to "": no socket.
	HeadSocket string

	// BumpAfter is how many blocks a transaction may wait in the pool before another transaction
	// of the same nonce, with higher fees, is sent: the next one of [Alternatives], or a
	// replacement of an intent's transaction. At least LateArrival passes before that. Defaults to
	// 3.
	BumpAfter uint64

	// NoFloorGas makes Check accept transactions with less gas than EIP-7623 (Prague) asks for:
	// for chains without it.
	NoFloorGas bool
	// MaxResponse bounds the part of an answer that is read, in bytes. Defaults to 32 MiB.
	MaxResponse int64
}

// withDefaults returns a copy with every default filled in.
func (o *Options) withDefaults(chain uint64) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if err := cmp.Or(
		wire.FillDefault("LateArrival", &c.LateArrival, DefaultLateArrival),
		wire.FillDefault("Grace", &c.Grace, DefaultGrace),
		wire.FillDefault("Vanish", &c.Vanish, DefaultVanish),
		wire.FillDefault("HeadInterval", &c.HeadInterval, 0),
		wire.FillDefault("MaxInFlightPerService", &c.MaxInFlightPerService, DefaultMaxInFlightPerService),
		wire.FillDefault("MaxResponse", &c.MaxResponse, DefaultMaxResponse),
		wire.CheckTLS(c.Client, c.TLSConfig),
	); err != nil {
		return c, err
	}
	if c.Finality.usesTag() || c.Finality.isInstant {
		c.Vanish = 0
	}
	if c.BumpAfter == 0 {
		c.BumpAfter = DefaultBumpAfter
	}
	if c.Name == "" {
		c.Name = "evm:" + strconv.FormatUint(chain, 10)
	}
	if c.Genesis != "" {
		if _, ok := evmtx.ParseHash(c.Genesis); !ok {
			return c, &batch.InputError{Field: "Options.Genesis", Value: batch.Excerpt(c.Genesis, 80), Want: "0x and 64 hex digits"}
		}
	}
	if err := c.checkSocket(); err != nil {
		return c, err
	}
	if len(c.Fallbacks) > maxFallbacks {
		return c, &batch.InputError{Field: "Options.Fallbacks", Value: strconv.Itoa(len(c.Fallbacks)), Want: "63 at most"}
	}
	c.Header = c.Header.Clone()
	return c, wire.CheckHeader(c.Header, "Upgrade")
}

const maxFallbacks = 63

// checkSocket refuses an address that is not a WebSocket's. The error shows only its scheme and
// host.
func (o *Options) checkSocket() error {
	if o.HeadSocket == "" {
		return nil
	}
	u, err := url.Parse(o.HeadSocket)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" {
		return &batch.InputError{Field: "Options.HeadSocket", Want: "ws: or wss: and a host, such as ws://localhost:8546"}
	}
	if o.HeadInterval == 0 {
		return &batch.InputError{Field: "Options.HeadInterval", Value: "0", Want: "the time between blocks, because HeadSocket is set"}
	}
	return nil
}

// parseURL reads a node's address. The error shows no other part than scheme and host, since any
// other part may contain a key.
func parseURL(field, s string) (*url.URL, error) {
	refuse := func(shown string) (*url.URL, error) {
		return nil, &batch.InputError{Field: field, Value: batch.Excerpt(shown, 80), Want: "http:// or https:// and a host, such as http://localhost:8545"}
	}
	u, err := url.Parse(s)
	if err != nil {
		return refuse("")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "" {
		return refuse(shownURL(u))
	}
	return u, nil
}

// shownURL returns the part of an address that may be shown. Two endpoints may have the same text,
// so nothing is stored under it.
func shownURL(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// httpClient returns the client for all requests. direct is true if its transport
// is the library's own, which calls the trace hooks (see [wire.TraceRequest]).
func (o *Options) httpClient() (c *http.Client, direct bool) {
	t := wire.NewTransport(o.TLSConfig, idleTimeout)
	wire.EnableHTTP2(t)
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 4*maxIdleConns, maxIdleConns
	c, direct = wire.NewClient(o.Client, t), wire.IsOwnTransport(o.Client)
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if t, own := c.Transport.(*http.Transport); own {
		if t.MaxIdleConnsPerHost < maxIdleConns && !t.DisableKeepAlives { // else nearly each send opens a connection, and waits for it
			t = t.Clone()
			t.MaxIdleConnsPerHost, t.MaxIdleConns = maxIdleConns, max(t.MaxIdleConns, 4*maxIdleConns)
			c.Transport = t
		}
	}
	return c, direct
}
