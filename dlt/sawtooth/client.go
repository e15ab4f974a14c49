package sawtooth

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

var (
	_ dlt.Ledger        = (*Client)(nil)
	_ dlt.ListSubmitter = (*Client)(nil)
	_ dlt.Checker       = (*Client)(nil)
	_ dlt.Resolver      = (*Client)(nil)
	_ dlt.EventSource   = (*Client)(nil)
)

// Client submits batches to a node and asks it what became of them. It never
// retries, follows no redirect and starts no goroutine that outlives a call. All
// methods may be called concurrently.
//
// With fallbacks it stays with the node that it submits to until that one cannot
// be reached, and asks about a batch where that batch was sent. Nodes gossip
// batches but keep a status each of their own; what was sent by another process, or
// long ago, is asked of all of them, and the strongest answer counts.
type Client struct {
	traits   dlt.Traits
	http     *http.Client
	direct   bool // http's transport is net/http's own, whose hooks can be relied on
	header   http.Header
	secrets  *strings.Replacer
	maxBody  int
	maxReply int64
	alive    time.Duration // between pings
	receipts bool

	endpoints []endpoint
	preferred atomic.Uint32 // index of the endpoint that is submitted to
	sent      memory
}

// New returns a client of the node at the base URL, such as http://localhost:8008.
// It connects to nothing. nil options are the defaults. The error is a
// [*batch.InputError].
func New(url string, o *Options) (*Client, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	endpoints, err := parseEndpoints(url, c.Fallbacks)
	if err != nil {
		return nil, err
	}
	hc := c.httpClient()
	transport := hc.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	_, direct := transport.(*http.Transport)
	return &Client{
		traits: dlt.Traits{
			Name: c.Name,
			// Batch and transaction ids are unique in a chain, so that the same bytes
			// never execute twice, however often and however late they arrive
			// (docs/ledgers/sawtooth.md#the-same-bytes-again). That is why a late arrival is of
			// no interest either, and is 0.
			ResendHarmlessFor: dlt.Forever,
			LateArrival:       0,
			Grace:             c.Grace,
			ResendQuiet:       c.ResendQuiet,
			Settle:            c.Settle,
			MaxIDsPerQuery:    maxIDs,
			MaxList:           c.MaxList,
			MaxListBytes:      maxListBytes(c.MaxBody, c.MaxList),
			// The pool that a 429 speaks of belongs to the node
			// (docs/ledgers/sawtooth.md#submitting).
			PressureScope: dlt.ScopeEndpoint,
			Vanish:        c.Vanish,
			KeepsOrder:    c.SingleValidator,
			Resolves:      true,
			Streams:       !c.NoEvents,
			Checks:        true,
		},
		http:      hc,
		direct:    direct,
		header:    c.Header,
		secrets:   redactor(c.Header),
		maxBody:   c.MaxBody,
		maxReply:  c.MaxResponse,
		alive:     c.KeepAlive,
		receipts:  c.Receipts,
		endpoints: endpoints,
	}, nil
}

// Traits implements [dlt.Ledger]. They are the same for every service.
func (c *Client) Traits(batch.ServiceID) dlt.Traits { return c.traits }

// Check implements [dlt.Checker]: the func of the same name, with Options.MaxBody.
func (c *Client) Check(b batch.Batch) error { return check(b, c.maxBody, true) }

// CloseIdleConnections closes the connections that no request is using. The client
// can be used afterwards.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// maxListBytes is how long the payloads of a list may be together: a body must be
// smaller than maxBody (docs/ledgers/sawtooth.md#requests-and-limits), and each payload has a
// header of up to six bytes in it.
func maxListBytes(maxBody, maxList int) int {
	return max(1, maxBody-1-6*maxList)
}
