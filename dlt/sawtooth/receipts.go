package sawtooth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const (
	opReceipts = "receipts"
	// receiptFetchers is for how many batches receipts are fetched at once: fewer than the node
	// has threads.
	receiptFetchers = 3
	// receiptTimeout is how long a known verdict may wait for its receipts.
	receiptTimeout = 5 * time.Second
	// maxReceipt is the largest receipt that is kept, in bytes.
	maxReceipt = 64 << 10
)

// addReceipts adds the receipts of committed batches. It leaves out receipts that it cannot get,
// since the verdict does not depend on them, and receipts for which there is no room: a Runner
// asks about each of these batches alone later. If verdicts is true, verdicts wait for the
// receipts, and only for receiptTimeout.
func (c *Client) addReceipts(ctx context.Context, statuses []batch.Status, verdicts bool) {
	if verdicts {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, receiptTimeout)
		defer cancel()
	}
	var wg sync.WaitGroup
	var left atomic.Int64 // bytes left: one answer has at most MaxResponse of them
	left.Store(c.maxResponse)
	hands := make(chan struct{}, receiptFetchers)
	for i := range statuses {
		if statuses[i].Reported != batch.ReportedCommitted {
			continue
		}
		hands <- struct{}{}
		wg.Go(func() {
			defer func() { <-hands }()
			receipts, _ := c.receiptsOf(ctx, statuses[i].ID)
			size := int64(0)
			for _, r := range receipts {
				size += int64(len(r.TransactionID) + len(r.Data))
			}
			if left.Add(-size) < 0 {
				left.Add(size)
				return
			}
			statuses[i].Receipts = receipts
		})
	}
	wg.Wait()
}

// receiptsOf asks the nodes, beginning with the node for submissions, until one has the batch.
func (c *Client) receiptsOf(ctx context.Context, id batch.ID) ([]batch.Receipt, error) {
	first := int(c.preferred.Load())
	var errs []error
	for i := range c.endpoints {
		e := c.endpoints[(first+i)%len(c.endpoints)]
		f, err := c.lookup(ctx, opReceipts, e.batches, string(id), codeNoBatch)
		if err == nil && f.isInChain {
			return c.fetchReceipts(ctx, e, f.transactions)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// fetchReceipts asks for the receipts of one batch only, because one missing receipt fails the
// whole request (404/80).
func (c *Client) fetchReceipts(ctx context.Context, e endpoint, transactions []string) ([]batch.Receipt, error) {
	body, err := json.Marshal(transactions)
	if err != nil {
		return nil, fmt.Errorf("sawtooth: encode ids: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newPost(ctx, e.receipts, "application/json")
	if err != nil {
		return nil, &dlt.Error{Op: opReceipts, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := c.exchange(req, opReceipts) //nolint:bodyclose // drain closes it
	if err != nil {
		return nil, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		env := readEnvelope(resp.Header, resp.Body, cancel)
		return nil, c.refusalError(opReceipts, resp, env, classifyStatuses(resp.StatusCode, env.code, resp.Header, time.Now()))
	}
	receipts, err := decodeReceipts(&wire.BoundedReader{R: resp.Body, Left: c.maxResponse}, transactions)
	if err != nil {
		return nil, &dlt.Error{Op: opReceipts, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.redactError(err)}
	}
	return receipts, nil
}

// decodeReceipts returns one receipt for each transaction, in their order, or an error.
func decodeReceipts(r io.Reader, transactions []string) ([]batch.Receipt, error) {
	var doc struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		return nil, wire.UnexpectedEOF(err)
	}
	out := make([]batch.Receipt, len(transactions))
	for _, raw := range doc.Data {
		var head struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, err
		}
		at := slices.Index(transactions, head.ID)
		if at < 0 || out[at].Valid {
			continue // of a transaction that was not asked for, or repeated
		}
		out[at] = batch.Receipt{TransactionID: batch.Excerpt(head.ID, batch.MaxIDLen), Valid: true}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return nil, err
		}
		if compact.Len() <= maxReceipt {
			out[at].Data = compact.Bytes()
		}
	}
	if missing := slices.IndexFunc(out, func(r batch.Receipt) bool { return !r.Valid }); missing >= 0 {
		return nil, fmt.Errorf("no receipt of transaction %s", batch.Excerpt(transactions[missing], 136))
	}
	return out, nil
}
