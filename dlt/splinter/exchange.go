package splinter

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// maxText is the length to which foreign text in an error is cut, in bytes.
const maxText = 256

// protocolHeader is the header with the version of scabbard's REST API, which is 1 and not the
// node's 2 (docs/ledgers/splinter.md#services-tokens-and-connections).
const protocolHeader = "Splinterprotocolversion"

// exchange sends one request to a node. A response of any status is no error. An error is a
// [*dlt.Error] of a certain kind, or doubt.
func (c *Client) exchange(req *http.Request, op string, p location) (*http.Response, error) {
	if err := c.setHeaders(req.Context(), req.Header, op, p); err != nil {
		return nil, err
	}
	wire.AcceptEncoding(req.Header)
	visit, after, err := c.requestsOf(p.node).enter(req.Context(), p.id)
	if err != nil {
		return nil, enterError(op, after, err)
	}
	wire.SendTraceParent(req.Context(), req.Header)
	ctx, sent := wire.TraceRequest(req.Context(), c.ownTransport)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { visit.noteSent() }})
	resp, err := c.clientFor(p).Do(req.WithContext(ctx))
	visit.leave(err == nil || sent() == wire.NotSent, clientGaveUp(ctx, err))
	if err == nil {
		wire.Decode(resp)
		c.noteAnswer(p, resp.StatusCode, req.Header)
		return resp, nil
	}
	return nil, &dlt.Error{Op: op, Kind: wire.KindOf(err, sent()), Err: c.redactError(err)}
}

// setHeaders sets the headers of a request. An error means that nothing was sent.
func (c *Client) setHeaders(ctx context.Context, h http.Header, op string, p location) error {
	if err := ctx.Err(); err != nil {
		return &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	}
	maps.Copy(h, c.options.Header)
	h[http.CanonicalHeaderKey(protocolHeader)] = []string{"1"}
	token, err := c.tokens.get(ctx, p.node)
	if err != nil {
		kind := dlt.ErrUnavailable
		if errors.Is(err, dlt.ErrMisconfigured) || errors.Is(err, batch.ErrInvalidInput) {
			kind = dlt.ErrMisconfigured
		}
		// The error is not wrapped: its kind would be about the token, not about the batch.
		return &dlt.Error{Op: op, Kind: kind, Message: c.redactText("no token: " + err.Error())}
	}
	if token != "" {
		h["Authorization"] = []string{bearerPrefix + token}
	}
	return nil
}

// noteAnswer draws conclusions about a node and a service from an answer's status.
func (c *Client) noteAnswer(p location, status int, sent http.Header) {
	if status == http.StatusUnauthorized {
		c.tokens.drop(p.node, sent.Get("Authorization")) // this request fails, and the next one gets a new token
	}
	if status != http.StatusNotFound && status < http.StatusInternalServerError {
		c.absentServices.clear(p)
	}
}

// redactError returns an error with err's text, shortened and without possible secrets.
func (c *Client) redactError(err error) error {
	return redact.ShownError(err, c.redactText)
}

// redactText makes foreign text safe to be shown in an error. It collects the secrets each time,
// because tokens and nodes change.
func (c *Client) redactText(text string) string {
	secrets := append(redact.HeaderSecrets(c.options.Header), c.tokens.secrets()...)
	c.nodeURLs.Range(func(_, u any) bool {
		secrets = append(secrets, redact.URLSecrets(u.(*url.URL))...) //nolint:forcetypeassert // the map has only URLs
		return true
	})
	return batch.Excerpt(redact.New(secrets).Hide(text), maxText)
}

// refusalError returns the [*dlt.Error] for a response.
func (c *Client) refusalError(op string, status int, e envelope, v wire.Verdict) error {
	return &dlt.Error{
		Op: op, StatusCode: status, Code: e.code, Message: c.redactText(e.message), RetryAfter: v.RetryAfter, Kind: v.Kind,
	}
}
