package canton

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// maxText is the length to which foreign text in an error is cut, in bytes.
const maxText = 512

// httpReply is a response, with the secrets that errors about it must not show.
type httpReply struct {
	*http.Response
	secrets requestSecrets
}

// exchange sends one request. A response of any status is no error. An error is a [*dlt.Error] of
// a certain kind, or doubt.
func (c *Client) exchange(req *http.Request, op string) (httpReply, error) {
	if err := req.Context().Err(); err != nil {
		return httpReply{}, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	}
	maps.Copy(req.Header, c.header)
	token, err := c.authorize(req.Context(), req.Header, op)
	if err != nil {
		return httpReply{}, err
	}
	wire.AcceptEncoding(req.Header)
	wire.SendTraceParent(req.Context(), req.Header)
	ctx, sent := wire.TraceRequest(req.Context(), c.ownTransport)
	resp, err := c.http.Do(req.WithContext(ctx)) //nolint:bodyclose // the caller drains it
	if err == nil {
		wire.Decode(resp)
		return httpReply{Response: resp, secrets: token}, nil
	}
	return httpReply{}, &dlt.Error{Op: op, Kind: wire.KindOf(err, sent()), Err: token.redactError(err)}
}

// authorize asks for a token and adds it to the header.
func (c *Client) authorize(ctx context.Context, h http.Header, op string) (requestSecrets, error) {
	out := requestSecrets{urlSecrets: c.endpoint.secrets}
	if c.tokenSource == nil {
		return out, nil
	}
	token, err := c.tokenSource(ctx)
	if err != nil {
		// Nothing was sent. The text is not shown, since it may contain the source's secrets.
		kind, cause := dlt.ErrUnavailable, &redact.Error{Text: "the token source failed", Err: err}
		if errors.Is(err, dlt.ErrMisconfigured) || errors.Is(err, batch.ErrInvalidInput) {
			kind = dlt.ErrMisconfigured
		}
		e := &dlt.Error{Op: op, Kind: kind, Err: cause}
		if dlt.Kind(e) == batch.KindDoubt {
			cause.Err = nil // the cause would be a second kind, which is about the token
		}
		return out, e
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return out, &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Message: "the token source returned something that is no token"}
	}
	if token != "" {
		h["Authorization"] = []string{"Bearer " + token}
	}
	out.token = token
	return out, nil
}

// requestSecrets are the parts of a request that must not be shown: its token, the parts of the
// URL that may be keys, and the values of Options.Header.
type requestSecrets struct {
	token      string
	urlSecrets []string
}

// redactText makes foreign text safe to be shown in an error.
func (s requestSecrets) redactText(text string) string {
	return batch.Excerpt(redact.New(append(redact.TokenSecrets(s.token), s.urlSecrets...)).Hide(text), maxText)
}

// redactError returns an error with err's text, shortened and without possible secrets.
func (s requestSecrets) redactError(err error) error {
	return redact.ShownError(err, s.redactText)
}
