package sawtooth

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// The codes with which a node answers that the batch, or the transaction, is not in its chain
// (docs/ledgers/sawtooth.md#receipts-and-lookups).
const (
	codeNoBatch       = 71
	codeNoTransaction = 72
)

// lookupResult is the result of a lookup of a batch or a transaction in the chain.
type lookupResult struct {
	isInChain    bool     // true if the batch or transaction is in this node's chain
	transactions []string // the ids of the batch's transactions
}

// lookup asks one node for a batch or a transaction by its id. 200 means that it is in the node's
// chain, and 404 with the node's own code that it is not. Any other answer is an error.
func (c *Client) lookup(ctx context.Context, op, target, id string, absent int) (lookupResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"/"+id, nil)
	if err != nil {
		return lookupResult{}, &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	resp, err := c.exchange(req, op) //nolint:bodyclose // drain closes it
	if err != nil {
		return lookupResult{}, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		e := readEnvelope(resp.Header, resp.Body, cancel)
		if resp.StatusCode == http.StatusNotFound && e.code == absent {
			return lookupResult{}, nil
		}
		return lookupResult{}, c.refusalError(op, resp, e, classifyStatuses(resp.StatusCode, e.code, resp.Header, time.Now()))
	}
	f, err := decodeLookup(resp.Body, c.maxResponse, id)
	if err != nil {
		return lookupResult{}, &dlt.Error{Op: op, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.redactError(err)}
	}
	return f, nil
}

// decodeLookup accepts an answer only if it is about id: a proxy in front of a node may answer 200
// to any request. It stops reading as soon as it can, because the payloads come last and may be
// larger than the limit.
func decodeLookup(r io.Reader, most int64, id string) (lookupResult, error) {
	d := wire.NewStream(r, most)
	var (
		signature string
		header    struct {
			Transactions []string `json:"transaction_ids"`
		}
		isKnown bool
	)
	within := func(key string) error {
		var odd, err error
		switch key {
		case "header":
			odd, err = d.Value(&header)
			isKnown = true
		case "header_signature":
			odd, err = d.Value(&signature)
		default:
			err = d.Skip()
		}
		if err = cmp.Or(err, odd); err == nil && isKnown && signature != "" {
			err = errEnough
		}
		return err
	}
	odd, err := d.Object(func(key string) error {
		if key != "data" {
			return d.Skip()
		}
		odd, err := d.Object(within)
		return cmp.Or(err, odd)
	})
	if err = cmp.Or(err, odd); err != nil && !errors.Is(err, errEnough) {
		return lookupResult{}, err
	}
	if signature != id {
		return lookupResult{}, errors.New("the answer is about something else")
	}
	return lookupResult{isInChain: true, transactions: header.Transactions}, nil
}

// errEnough ends the reading of an answer of which enough was read.
var errEnough = errors.New("sawtooth: enough was read")
