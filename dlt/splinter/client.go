package splinter

import (
	"crypto/rand"
	"net/http"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

var _ dlt.Ledger = (*Client)(nil)

// Client submits batches to scabbard services and asks them about the outcomes. It never
// retries, follows no redirect and starts no goroutine that outlives a call. All methods may
// be called concurrently.
type Client struct {
	dlt.Unimplemented // the client has no SubmitList and no Prepare

	options      Options
	traits       dlt.Traits
	http         *http.Client
	ownTransport bool // true if the transport is the library's own; see wire.TraceRequest
	tokens       tokenCache
	leaseHolder  string // this client's name in the leases of streams

	baseURL          string
	nodeURLs         sync.Map // base URL -> *url.URL, or error
	absentServices   absentServices
	sentTransactions sentTransactions
	validSince       validSince
	loggedIDs        idSet

	receiptQueries lastTimes
	logWriters     sync.Map // batch.ServiceID -> struct{}: this process writes the service's log
	holds          heldServices

	requestsByNode sync.Map // node -> *stalls
	suspectClients sync.Map // batch.ServiceID -> *http.Client, for services at suspected nodes
	circuits       sync.Map // node and circuit -> bool: whether it has several services
}

// New returns a client of the node at the base URL url, such as http://localhost:8080. New opens
// no connection. nil options mean the defaults. The error is a [*batch.InputError].
func New(url string, o *Options) (*Client, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if _, err := parseNode("url", url); err != nil {
		return nil, err
	}
	hc, direct := c.httpClient()
	return &Client{
		options: c,
		traits: dlt.Traits{
			Name: c.Name,
			// The same bytes again execute again (docs/ledgers/splinter.md#the-same-bytes-again).
			ResendHarmlessFor: 0,
			LateArrival:       c.LateArrival,
			// The node writes the history before it answers 202, so Unknown means as much at once
			// as later. Where it matters, LateArrival has passed.
			Grace:                 0,
			MaxIDsPerQuery:        maxIDs,
			MaxInFlightPerService: c.MaxInFlightPerService,
			// A service has one queue and executes one batch at a time, all POSTs go to one node,
			// and each waits for the answer to the one before. Only rolled-back batches fall
			// behind.
			KeepsOrder:      true,
			GroupsByService: true,
			// A 429 is about the service's queue (docs/ledgers/splinter.md#back-pressure).
			PressureScope: dlt.ScopeService,
			Stale:         2 * c.CoordinatorTimeout,
			Resolves:      true,
			Streams:       true,
			Checks:        true,
		},
		http: hc, ownTransport: direct, baseURL: url, leaseHolder: rand.Text(),
		tokens:         tokenCache{source: c.Token, nodes: map[string]*nodeToken{}},
		absentServices: absentServices{maxStartTime: c.StartingTimeout},
	}, nil
}

// Traits implements [dlt.Ledger]. It returns the same traits for every service.
func (c *Client) Traits(batch.ServiceID) dlt.Traits { return c.traits }

// CloseIdleConnections closes the connections that no request uses. The client can be used
// afterwards.
func (c *Client) CloseIdleConnections() {
	c.http.CloseIdleConnections()
	c.suspectClients.Range(func(_, apart any) bool {
		apart.(*http.Client).CloseIdleConnections() //nolint:forcetypeassert // the map has only clients
		return true
	})
}
