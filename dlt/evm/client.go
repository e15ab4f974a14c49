package evm

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/redact"
)

var _ dlt.Ledger = (*Client)(nil)

// Client submits signed transactions to the nodes of one chain and asks them about the
// outcomes. It never retries, follows no redirect, changes no nonce, and starts no goroutine
// that outlives a call. All methods may be called concurrently.
type Client struct {
	dlt.Unimplemented // the client has no SubmitList

	options      Options
	chain        uint64
	traits       dlt.Traits
	http         *http.Client
	ownTransport bool // true if the transport is the library's own; see wire.TraceRequest

	endpoints    []*endpoint
	preferred    atomic.Uint32 // index of the endpoint for submissions
	genesis      atomic.Pointer[evmtx.Hash]
	highestDeep  deepFloor
	secrets      *redact.Redactor
	senderMemory senderMemory
	receipts     receiptMemory
	searches     nonceSearches
	ancestry     ancestry
	refusals     refusalMemory
}

// New returns a client of the chain with the id chainID, through the node at url, such as
// http://localhost:8545. New opens no connection. nil options mean the defaults. The error is a
// [*batch.InputError].
func New(url string, chainID uint64, o *Options) (*Client, error) {
	if chainID == 0 || chainID > evmtx.MaxChainID {
		return nil, &batch.InputError{Field: "chainID", Value: strconv.FormatUint(chainID, 10), Want: "1 to " + strconv.FormatUint(evmtx.MaxChainID, 10)}
	}
	opts, err := o.withDefaults(chainID)
	if err != nil {
		return nil, err
	}
	c := &Client{options: opts, chain: chainID, traits: traits(opts)}
	c.http, c.ownTransport = opts.httpClient()
	if opts.Genesis != "" {
		h, _ := evmtx.ParseHash(opts.Genesis)
		c.genesis.Store(&h)
	}
	secrets := redact.HeaderSecrets(opts.Header)
	for i, address := range append([]string{url}, opts.Fallbacks...) {
		field := "url"
		if i > 0 {
			field = "Options.Fallbacks[" + strconv.Itoa(i-1) + "]"
		}
		u, err := parseURL(field, address)
		if err != nil {
			return nil, err
		}
		e := &endpoint{index: uint32(i), url: u.String(), shownAddress: shownURL(u)}
		c.endpoints = append(c.endpoints, e)
		secrets = append(secrets, redact.URLSecrets(u)...)
	}
	c.secrets = redact.New(secrets)
	return c, nil
}

func traits(o Options) dlt.Traits {
	return dlt.Traits{
		Name: o.Name,
		// An account's nonce is used once, so the same bytes are executed once.
		ResendHarmlessFor: dlt.Forever,
		LateArrival:       o.LateArrival,
		Grace:             o.Grace,
		MaxIDsPerQuery:    maxIDs,
		// Of transactions that wait for an earlier nonce, nodes keep few for each account.
		MaxInFlightPerService: o.MaxInFlightPerService,
		// Nonces order the execution, and Submit refuses gaps. So transactions are accepted in the
		// order of their nonces.
		KeepsOrder: true,
		// A 429 is about the whole endpoint. A refusal that concerns one account is dlt.ErrNotYet.
		PressureScope: dlt.ScopeEndpoint,
		Stale:         staleAfter,
		Vanish:        o.Vanish,
		Resolves:      true,
		Streams:       o.HeadInterval > 0,
		Checks:        true,
		// Of alternatives, Prepare keeps all hashes and which of them may be sent. Of a single
		// transaction it keeps nothing.
		Prepares: true,
		Renews:   true,
	}
}

// staleAfter is how long a batch may be Pending or Valid before Resolve looks for another
// transaction that has used its nonce.
const staleAfter = 10 * time.Minute

// Traits implements [dlt.Ledger]. It returns the same traits for every service.
func (c *Client) Traits(batch.ServiceID) dlt.Traits { return c.traits }

// CloseIdleConnections closes the connections that no request uses. The client can be used
// afterwards.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// nextNonces remembers, for a while, the next nonce that a node accepts of an account, because the
// node has accepted the nonce before it.
type nextNonces struct {
	mu        sync.Mutex
	byAccount map[evmtx.Address]expectedNonce
}

type expectedNonce struct {
	nonce   uint64
	notedAt time.Time
}

const (
	maxNonces     = 10_000
	nonceFreshFor = 10 * time.Second
)

func (n *nextNonces) noteAccepted(a evmtx.Address, nonce uint64, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byAccount == nil || len(n.byAccount) >= maxNonces {
		n.byAccount = map[evmtx.Address]expectedNonce{}
	}
	next := nonce + 1
	if e, ok := n.byAccount[a]; ok && now.Sub(e.notedAt) < nonceFreshFor {
		next = max(next, e.nonce) // a transaction with an earlier nonce was sent again
	}
	n.byAccount[a] = expectedNonce{nonce: next, notedAt: now}
}

func (n *nextNonces) isNext(a evmtx.Address, nonce uint64, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.byAccount[a]
	return ok && nonce <= e.nonce && now.Sub(e.notedAt) < nonceFreshFor
}

// maxText is the length to which foreign text in an error is cut, in bytes.
const maxText = 256

// shownText makes foreign text safe to be shown in an error.
func (c *Client) shownText(text string) string {
	if len(text) > 64<<10 {
		text = text[:64<<10]
	}
	return batch.Excerpt(c.secrets.Hide(text), maxText)
}
