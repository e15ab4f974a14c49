package splinter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// maxText bounds what others wrote, in bytes, wherever it becomes part of an error.
const maxText = 256

// protocolHeader says what scabbard's REST API is spoken, which is 1 and not the 2
// of the node's (ledgers/sawtooth-and-splinter.md C1).
const protocolHeader = "Splinterprotocolversion"

// exchange sends one request to a node. A response of any status is no error; an
// error is a [*dlt.Error] of the kind that is certain.
func (c *Client) exchange(req *http.Request, op string, p place) (*http.Response, error) {
	if err := c.prepare(req.Context(), req.Header, op, p); err != nil {
		return nil, err
	}
	// What is compressed on the way cannot be bounded before it is read.
	req.Header["Accept-Encoding"] = []string{"identity"}
	var asked, got atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	}))
	resp, err := c.http.Do(req)
	if err == nil {
		c.answered(p, resp.StatusCode, req.Header)
		return resp, nil
	}
	// A transport of the caller's that has no hooks proves nothing by their silence.
	unsent := !got.Load() && (asked.Load() || c.direct)
	return nil, &dlt.Error{Op: op, Kind: transportKind(err, unsent), Err: c.cause(err)}
}

// prepare sets the headers of a request. An error means that nothing was sent.
func (c *Client) prepare(ctx context.Context, h http.Header, op string, p place) error {
	if err := ctx.Err(); err != nil {
		return &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	}
	maps.Copy(h, c.o.Header)
	h[http.CanonicalHeaderKey(protocolHeader)] = []string{"1"}
	token, err := c.tokens.get(ctx, p.node)
	if err != nil {
		kind := dlt.ErrUnavailable
		if errors.Is(err, dlt.ErrMisconfigured) || errors.Is(err, batch.ErrInvalidInput) {
			kind = dlt.ErrMisconfigured
		}
		// Not wrapped: a kind that it wraps is about the token, not about the batch.
		return &dlt.Error{Op: op, Kind: kind, Message: c.show("no token: " + err.Error())}
	}
	if token != "" {
		h["Authorization"] = []string{bearer + token}
	}
	return nil
}

// answered takes from an answer what it says of node and service.
func (c *Client) answered(p place, status int, sent http.Header) {
	if status == http.StatusUnauthorized {
		c.tokens.drop(p.node, sent.Get("Authorization")) // asked for again by the next request; this one ends
	}
	if status != http.StatusNotFound && status < http.StatusInternalServerError {
		c.absent.clear(p)
	}
}

// transportKind says what is certain after an error without a response: nothing
// was sent where there never was a connection, and anything may have happened
// where there was one.
func transportKind(err error, unsent bool) error {
	switch {
	case !unsent:
		return dlt.ErrDoubt
	case isTLS(err):
		return dlt.ErrMisconfigured // it is the same for the next batch, until a person acts
	default:
		return dlt.ErrUnavailable
	}
}

func isTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		roots        x509.SystemRootsError
		op           *net.OpError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &roots) ||
		(errors.As(err, &op) && op.Op == "remote error") // how crypto/tls marks an alert of the other side
}

// cause is an error whose text is fit to be shown.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

// cause strips what may be secret from an error's text, and bounds it.
func (c *Client) cause(err error) error {
	text := err.Error()
	var u *url.Error
	for e := err; errors.As(e, &u); e = u.Err {
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), strconv.Quote(bareURL(u.URL)))
	}
	return &cause{text: c.show(text), err: err}
}

// bareURL drops user, password, query and fragment.
func bareURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// show makes text from outside fit to be shown.
func (c *Client) show(text string) string {
	return batch.Excerpt(c.tokens.redact(text), maxText)
}

// refusal is a [*dlt.Error] of a response.
func (c *Client) refusal(op string, status int, e envelope, v verdict) error {
	return &dlt.Error{
		Op: op, StatusCode: status, Code: e.code, Message: c.show(e.message), RetryAfter: v.retryAfter, Kind: v.kind,
	}
}

// patience is how long the body of an answer may take once its status is known,
// where the status says (nearly) all.
const patience = 2 * time.Second

// drain reads the little that is left, so that the connection can be used again.
// cancel is that of the request: a body that does not end must not hold up a caller
// who is answered already.
func drain(body io.ReadCloser, cancel context.CancelFunc) {
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxEnvelope)
	_ = body.Close()
}
