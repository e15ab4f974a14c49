package canton

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

var _ dlt.Ledger = (*Client)(nil)

// Client submits commands to one participant and reads their outcomes from its completions. It
// never retries a submission, follows no redirect and starts no goroutine that outlives a
// call. All methods may be called concurrently.
//
// Deduplication, offsets and completions belong to the participant: all attempts of a batch
// must go through clients of the same participant.
type Client struct {
	dlt.Unimplemented // the client has no SubmitList

	traits       dlt.Traits
	http         *http.Client
	ownTransport bool // true if the transport is the library's own; see wire.TraceRequest
	endpoint     endpoint
	header       http.Header

	userID              string
	tokenSource         func(context.Context) (string, error)
	deduplicationPeriod time.Duration
	lookBack            int64
	idleWait            time.Duration
	decidedWithin       time.Duration
	streamSilence       time.Duration
	maxBody             int
	maxResponse         int64

	pageLimit atomic.Int64
	traces    batchTraces
}

// New returns a client of the participant whose JSON Ledger API is at the base URL url, such as
// http://localhost:7575. New opens no connection. nil options mean the defaults. The error is a
// [*batch.InputError].
func New(url string, o *Options) (*Client, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	at, err := parseEndpoint(url)
	if err != nil {
		return nil, err
	}
	at.secrets = append(at.secrets, redact.HeaderSecrets(c.Header)...)
	hc := c.httpClient()
	out := &Client{
		traits: dlt.Traits{
			Name: c.Name,
			// The same command does not take effect twice within the period, even with
			// different submission ids (docs/ledgers/canton.md#deduplication).
			ResendHarmlessFor: c.DeduplicationPeriod,
			LateArrival:       c.LateArrival,
			Grace:             c.Grace,
			// A rejected submission stays rejected, and does not keep the next one from being
			// accepted.
			Settle: 0, ResendQuiet: 0,
			MaxIDsPerQuery: maxIDs,
			// Completions are read by party, and a token may lack the right for a party.
			GroupsByService: true,
			// Back pressure is the participant's (docs/ledgers/canton.md#errors).
			PressureScope: dlt.ScopeEndpoint,
			Streams:       !c.PollOnly,
			Resolves:      true,
			Checks:        true,
			Prepares:      true,
		},
		http: hc, ownTransport: wire.IsOwnTransport(c.Client), endpoint: at, header: c.Header,
		userID: c.UserID, tokenSource: c.Token, deduplicationPeriod: c.DeduplicationPeriod,
		lookBack: c.LookBack, idleWait: c.IdleWait, decidedWithin: c.DecidedWithin, streamSilence: c.StreamSilence,
		maxBody: c.MaxBody, maxResponse: c.MaxResponse,
	}
	out.pageLimit.Store(int64(c.PageLimit))
	return out, nil
}

// Traits implements [dlt.Ledger]. It returns the same traits for every service.
func (c *Client) Traits(batch.ServiceID) dlt.Traits { return c.traits }

// CloseIdleConnections closes the connections that no request uses. The client can be used
// afterwards.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }
