package canton

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const (
	opSubmit   = "submit"
	opStatuses = "batch statuses"
	opPrepare  = "prepare"
	opEvents   = "events"
)

// Submit implements [dlt.Submitter]. The command id is the batch's id, the party its service,
// and the submission id names the attempt.
//
// nil means HTTP 200: the participant has interpreted the commands and goes on with them. It
// also means DUPLICATE_COMMAND: an earlier attempt has taken effect, as the next BatchStatuses
// reports. SUBMISSION_ALREADY_IN_FLIGHT is doubt: the batch's outcome depends on the earlier
// attempt. The error is a [*dlt.Error].
func (c *Client) Submit(ctx context.Context, a batch.Attempt) (err error) {
	defer func() { err = dlt.At(c.endpoint.shownURL, err) }()
	body, err := c.submission(a)
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Err: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := newPost(ctx, c.endpoint.submitURL, body)
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrMisconfigured, Err: requestSecrets{urlSecrets: c.endpoint.secrets}.redactError(err)}
	}
	resp, err := c.exchange(req, opSubmit)
	if err != nil {
		return err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	e := readEnvelope(resp.Header, resp.Body, cancel)
	kind := submitKind(resp.StatusCode, e)
	if kind == nil {
		c.traces.noteDuplicate(a.Key)
		return nil
	}
	return refusalError(opSubmit, resp, e, kind)
}

// refusalError returns the [*dlt.Error] for a response.
func refusalError(op string, resp httpReply, e envelope, kind error) error {
	err := &dlt.Error{
		Op: op, StatusCode: resp.StatusCode, Code: max(e.grpcCode, 0), Message: resp.secrets.redactText(e.shownText()), Kind: kind,
	}
	if errors.Is(kind, dlt.ErrBusy) {
		err.RetryAfter = max(e.retryAfter, retryAfter(resp.Header))
	}
	return err
}

// newPost returns a request without GetBody, so that net/http cannot send it again.
func newPost(ctx context.Context, target string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header["Content-Type"] = []string{"application/json"}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return req, nil
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
