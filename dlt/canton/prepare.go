package canton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// preparedBytes is stored before the first POST. Its offset is the ledger's end at that time: the
// completions of all attempts come after it (docs/ledgers/canton.md#deduplication).
type preparedBytes struct {
	Offset *int64 `json:"offset"`
}

// Prepare implements [dlt.Ledger]: it asks for the participant's ledger end.
func (c *Client) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	end, err := c.ledgerEnd(ctx, opPrepare)
	if err != nil {
		var e *dlt.Error
		if errors.As(err, &e) && (e.Kind == nil || errors.Is(e.Kind, dlt.ErrDoubt)) {
			sure := *e
			sure.Kind = dlt.ErrUnavailable // a query has no effect that could be in doubt
			return nil, &sure
		}
		return nil, err
	}
	out, err := json.Marshal(preparedBytes{Offset: &end})
	if err != nil {
		return nil, fmt.Errorf("canton: encode offset of %s: %w", a.Key, err)
	}
	return out, nil
}

// parsePrepared reads the result of Prepare.
func parsePrepared(b []byte) (int64, error) {
	var p preparedBytes
	if err := json.Unmarshal(b, &p); err != nil {
		return 0, fmt.Errorf("canton: the bytes that were stored before the first attempt cannot be read: %w", err)
	}
	if p.Offset == nil || *p.Offset < 0 {
		return 0, errors.New("canton: the bytes that were stored before the first attempt hold no offset")
	}
	return *p.Offset, nil
}

// ledgerEnd asks for the participant's last offset.
func (c *Client) ledgerEnd(ctx context.Context, op string) (int64, error) {
	var doc struct {
		Offset *int64 `json:"offset"`
	}
	if err := c.get(ctx, op, c.endpoint.ledgerEndURL, &doc); err != nil {
		return 0, err
	}
	if doc.Offset == nil || *doc.Offset < 0 {
		return 0, &dlt.Error{Op: op, Message: "the ledger end is no offset"}
	}
	return *doc.Offset, nil
}

// prunedUpTo asks for the last pruned offset: completions up to it cannot be read any more.
func (c *Client) prunedUpTo(ctx context.Context, op string) (int64, error) {
	var doc struct {
		Pruned *int64 `json:"participantPrunedUpToInclusive"`
	}
	if err := c.get(ctx, op, c.endpoint.prunedURL, &doc); err != nil {
		return 0, err
	}
	if doc.Pruned == nil || *doc.Pruned < 0 {
		return 0, &dlt.Error{Op: op, Message: "the pruned offset is no offset"}
	}
	return *doc.Pruned, nil
}

func (c *Client) get(ctx context.Context, op, target string, into any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Err: requestSecrets{urlSecrets: c.endpoint.secrets}.redactError(err)}
	}
	resp, err := c.exchange(req, op)
	if err != nil {
		return err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		e := readEnvelope(resp.Header, resp.Body, cancel)
		return refusalError(op, resp, e, readKind(resp.StatusCode, e))
	}
	b, err := wire.ReadShortBody(resp.Body, cancel)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return &dlt.Error{Op: op, StatusCode: resp.StatusCode, Err: resp.secrets.redactError(err)}
	}
	return nil
}
