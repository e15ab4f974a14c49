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

// maxText bounds foreign text wherever it becomes part of an error, in bytes.
const maxText = 512

// reply is a response, and the secret to hide when it is shown.
type reply struct {
	*http.Response
	secret requestSecrets
}

// exchange sends one request. A response of any status is no error. An error is a [*dlt.Error]
// of the certain kind, or doubt.
func (c *Client) exchange(req *http.Request, op string) (reply, error) {
	if err := req.Context().Err(); err != nil {
		return reply{}, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	}
	maps.Copy(req.Header, c.header)
	token, err := c.authorize(req.Context(), req.Header, op)
	if err != nil {
		return reply{}, err
	}
	wire.AcceptEncoding(req.Header)
	wire.SendTraceParent(req.Context(), req.Header)
	ctx, sent := wire.TraceRequest(req.Context(), c.ownTransport)
	resp, err := c.http.Do(req.WithContext(ctx)) //nolint:bodyclose // the caller drains it
	if err == nil {
		wire.Decode(resp)
		return reply{Response: resp, secret: token}, nil
	}
	return reply{}, &dlt.Error{Op: op, Kind: wire.KindOf(err, sent()), Err: token.redactError(err)}
}

// authorize asks for a token and adds it to the header.
func (c *Client) authorize(ctx context.Context, h http.Header, op string) (requestSecrets, error) {
	out := requestSecrets{url: c.endpoint.secrets}
	if c.token == nil {
		return out, nil
	}
	token, err := c.token(ctx)
	if err != nil {
		// Nothing was sent. The text may hold the source's secrets, and is not shown.
		kind, cause := dlt.ErrUnavailable, &redact.Error{Text: "the token source failed", Err: err}
		if errors.Is(err, dlt.ErrMisconfigured) || errors.Is(err, batch.ErrInvalidInput) {
			kind = dlt.ErrMisconfigured
		}
		e := &dlt.Error{Op: op, Kind: kind, Err: cause}
		if dlt.Kind(e) == batch.KindDoubt {
			cause.Err = nil // two kinds, and one of them is about the token
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

// requestSecrets has the parts of a request that must not be shown: its token, the parts of the
// URL that may be keys, and what Options.Header has.
type requestSecrets struct {
	token string
	url   []string
}

// redactText makes outside text fit to be shown.
func (s requestSecrets) redactText(text string) string {
	return batch.Excerpt(redact.New(append(redact.TokenSecrets(s.token), s.url...)).Hide(text), maxText)
}

// redactError removes possible secrets from an error's text, and bounds it.
func (s requestSecrets) redactError(err error) error {
	return redact.ShownError(err, s.redactText)
}
