package sawtooth

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

// errNotTried marks a request that was over before it began, which says nothing of the node.
var errNotTried = errors.New("sawtooth: not tried")

// exchange sends one request. A response of any status is no error; an error is a
// [*dlt.Error] of the kind that is certain.
func (c *Client) exchange(req *http.Request, op string) (*http.Response, error) {
	maps.Copy(req.Header, c.header)
	// What is compressed on the way cannot be bounded before it is read.
	req.Header["Accept-Encoding"] = []string{"identity"}
	if err := req.Context().Err(); err != nil {
		return nil, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: &cause{text: err.Error(), err: errors.Join(errNotTried, err)}}
	}
	ctx, unsent := c.trace(req.Context())
	resp, err := c.http.Do(req.WithContext(ctx))
	if err == nil {
		return resp, nil
	}
	return nil, &dlt.Error{Op: op, Kind: transportKind(err, unsent()), Err: c.cause(err)}
}

// trace returns a context for one request, and a func that says after it whether it
// is certain that nothing was sent.
func (c *Client) trace(ctx context.Context) (context.Context, func() bool) {
	var asked, got atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	// A transport of the caller's that has no hooks proves nothing by their silence.
	return ctx, func() bool { return !got.Load() && (asked.Load() || c.direct) }
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
	return batch.Excerpt(c.secrets.Replace(text), maxText)
}

// redactor replaces the values of the caller's header wherever somebody echoes them.
func redactor(h http.Header) *strings.Replacer {
	var pairs []string
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= 4 { // less is no secret and may be anywhere
			pairs = append(pairs, s, "[redacted]")
		}
	}
	for _, values := range h {
		for _, v := range values {
			add(v)
			if _, credential, ok := strings.Cut(v, " "); ok { // "Bearer abc"
				add(credential)
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// refusal is a [*dlt.Error] of a response.
func (c *Client) refusal(op string, resp *http.Response, e envelope, v verdict) error {
	return &dlt.Error{
		Op: op, StatusCode: resp.StatusCode, Code: e.code, Message: c.show(e.message),
		RetryAfter: v.retryAfter, Kind: v.kind,
	}
}

// maxEnvelope bounds what is read of an answer that is an error, in bytes.
const maxEnvelope = 64 << 10

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

func newPost(ctx context.Context, target, contentType string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return nil, err
	}
	// Byte for byte: a parameter behind it is refused (B2, B4).
	req.Header["Content-Type"] = []string{contentType}
	return req, nil
}
