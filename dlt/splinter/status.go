package splinter

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// maxIDs is the largest number of ids in one request. They are in the request line, of which
// servers and proxies accept 8 KiB.
const maxIDs = 50

const opStatuses = "batch statuses"

// BatchStatuses implements [dlt.BatchStatusReader]. An id that is not 128 lower-case hex
// digits is never sent and has no answer. Errors are [*dlt.Error]s; the answers that come with an
// error are good.
func (c *Client) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	var (
		ids  = make([]batch.ID, 0, len(attempts))
		seen = make(map[batch.ID]struct{}, len(attempts))
	)
	for _, a := range attempts {
		if _, twice := seen[a.ID]; !twice && isID(string(a.ID)) {
			seen[a.ID] = struct{}{}
			ids = append(ids, a.ID)
		}
	}
	p, err := c.locate(service)
	if err != nil {
		return nil, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Err: err}
	}
	var out []batch.Status
	for chunk := range slices.Chunk(ids, maxIDs) {
		answers, err := c.ask(ctx, p, chunk)
		for _, a := range answers {
			out = append(out, a.Status)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// ask sends one query. It does not ask the node to wait, since a wait occupies one of the threads
// that serve all clients (docs/ledgers/splinter.md#asking-for-statuses).
func (c *Client) ask(ctx context.Context, p location, ids []batch.ID) ([]answer, error) {
	var list strings.Builder
	for i, id := range ids {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(string(id))
	}
	target := p.rootURL.JoinPath("batch_statuses")
	target.RawQuery = "ids=" + list.String() // hex digits and commas need no escapes
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.requestsOf(p.node).isSuspect(time.Now()) { // closes the connection, since the next query may get a better one
		ctx, cancel = context.WithTimeout(ctx, connectionCheckTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	resp, err := c.exchange(req, opStatuses, p) //nolint:bodyclose // drain closes it
	if err != nil {
		return nil, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		e := readEnvelope(resp.Header, resp.Body, cancel)
		v := classifyStatuses(resp.StatusCode, resp.Header, c.kindOf404(p, resp.StatusCode), time.Now())
		return nil, c.refusalError(opStatuses, resp.StatusCode, e, v)
	}
	answers, err := decodeStatuses(resp.Body, c.options.MaxResponse, ids)
	statuses := make([]batch.Status, len(answers))
	for i, a := range answers {
		statuses[i] = a.Status
	}
	c.validSince.noteValid(p.id, statuses, time.Now())
	if err != nil {
		err = &dlt.Error{Op: opStatuses, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.redactError(err)}
	}
	return answers, err
}
