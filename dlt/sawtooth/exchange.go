package sawtooth

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// maxText is the length to which foreign text in an error is cut, in bytes.
const maxText = 256

// errNotTried marks a request whose context was done before it began. It says nothing about the
// node.
var errNotTried = errors.New("sawtooth: not tried")

// exchange sends one request. A response of any status is no error. An error is a [*dlt.Error] of
// a certain kind, or doubt.
func (c *Client) exchange(req *http.Request, op string) (*http.Response, error) {
	maps.Copy(req.Header, c.header)
	wire.AcceptEncoding(req.Header)
	if err := req.Context().Err(); err != nil {
		return nil, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: &redact.Error{Text: err.Error(), Err: errors.Join(errNotTried, err)}}
	}
	wire.SendTraceParent(req.Context(), req.Header)
	ctx, sent := wire.TraceRequest(req.Context(), c.ownTransport)
	resp, err := c.http.Do(req.WithContext(ctx))
	if err == nil {
		wire.Decode(resp)
		return resp, nil
	}
	return nil, &dlt.Error{Op: op, Kind: wire.KindOf(err, sent()), Err: c.redactError(err)}
}

// redactError returns an error with err's text, shortened and without possible secrets.
func (c *Client) redactError(err error) error {
	return redact.ShownError(err, c.redactText)
}

// redactText makes foreign text safe to be shown in an error.
func (c *Client) redactText(text string) string {
	return batch.Excerpt(c.secrets.Hide(text), maxText)
}

// refusalError returns the [*dlt.Error] for a response.
func (c *Client) refusalError(op string, resp *http.Response, e answerEnvelope, v wire.Verdict) error {
	return &dlt.Error{
		Op: op, StatusCode: resp.StatusCode, Code: e.code, Message: c.redactText(e.message),
		RetryAfter: v.RetryAfter, Kind: v.Kind,
	}
}

func newPost(ctx context.Context, target, contentType string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return nil, err
	}
	// The header's bytes matter: a node refuses a content type with a parameter
	// (docs/ledgers/sawtooth.md#submitting, docs/ledgers/sawtooth.md#asking-for-statuses).
	req.Header["Content-Type"] = []string{contentType}
	return req, nil
}
