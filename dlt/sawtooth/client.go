package sawtooth

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

var _ dlt.Ledger = (*Client)(nil)

// Client submits batches to a node and asks it about their outcomes. It never retries, follows no
// redirect and starts no goroutine that outlives a call. All methods may be called concurrently.
//
// With fallbacks the Client submits to one node until that node cannot be reached, and asks about
// a batch at the node to which it sent the batch. Nodes gossip batches, but each node has its own
// statuses. So the client asks all nodes about a batch that another process sent, or that was sent
// long ago, and uses the strongest answer.
type Client struct {
	dlt.Unimplemented // the client has no Prepare

	traits          dlt.Traits
	http            *http.Client
	ownTransport    bool // true if the transport is the library's own; see wire.TraceRequest
	header          http.Header
	secrets         *redact.Redactor
	maxBody         int
	maxResponse     int64
	pingInterval    time.Duration // time between pings
	fetchesReceipts bool

	endpoints     []endpoint
	preferred     atomic.Uint32       // index of the endpoint for submissions
	doubtCounters []wire.DoubtCounter // one for each endpoint
	sentTo        endpointMemory
}

// New returns a client of the node at the base URL url, such as http://localhost:8008. New opens
// no connection. nil options mean the defaults. The error is a [*batch.InputError].
func New(url string, o *Options) (*Client, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	endpoints, err := parseEndpoints(url, c.Fallbacks)
	if err != nil {
		return nil, err
	}
	secrets := redact.HeaderSecrets(c.Header)
	for _, e := range endpoints {
		secrets = append(secrets, e.secrets...)
	}
	hc := c.httpClient()
	return &Client{
		traits: dlt.Traits{
			Name: c.Name,
			// Batch and transaction ids are unique in a chain, so the same bytes never execute
			// twice, at any time (docs/ledgers/sawtooth.md#the-same-bytes-again). So a late
			// arrival does no harm, and LateArrival is 0.
			ResendHarmlessFor: dlt.Forever,
			AddAgainHarmless:  true,
			LateArrival:       0,
			Grace:             c.Grace,
			ResendQuiet:       c.ResendQuiet,
			Settle:            c.Settle,
			MaxIDsPerQuery:    maxIDs,
			MaxList:           c.MaxList,
			MaxListBytes:      maxListBytes(c.MaxBody, c.MaxList),
			// A 429 is about the node's pool (docs/ledgers/sawtooth.md#submitting).
			PressureScope: dlt.ScopeEndpoint,
			Vanish:        c.Vanish,
			KeepsOrder:    c.SingleValidator,
			Receipts:      c.Receipts,
			Resolves:      true,
			Streams:       !c.NoEvents,
			Checks:        true,
		},
		http:            hc,
		ownTransport:    wire.IsOwnTransport(c.Client),
		header:          c.Header,
		secrets:         redact.New(secrets),
		maxBody:         c.MaxBody,
		maxResponse:     c.MaxResponse,
		pingInterval:    c.KeepAlive,
		fetchesReceipts: c.Receipts,
		endpoints:       endpoints,
		doubtCounters:   make([]wire.DoubtCounter, len(endpoints)),
	}, nil
}

// Traits implements [dlt.Ledger]. It returns the same traits for every service.
func (c *Client) Traits(batch.ServiceID) dlt.Traits { return c.traits }

// Check implements [dlt.Ledger]: it is the func Check, with Options.MaxBody.
func (c *Client) Check(b batch.Batch) error { return check(b, c.maxBody, true) }

// CloseIdleConnections closes the connections that no request uses. The client can be used
// afterwards.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// maxListBytes returns the largest sum of a list's payloads. A request's body must be smaller than
// maxBody (docs/ledgers/sawtooth.md#requests-and-limits), and has up to six bytes more than each
// payload.
func maxListBytes(maxBody, maxList int) int {
	return max(1, maxBody-1-6*maxList)
}
