package canton

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
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

const (
	// maxText bounds what others wrote, in bytes, wherever it becomes part of an error.
	maxText = 512
	// maxEnvelope bounds what is read of an answer that is an error, in bytes. Error
	// details have at most 4 KiB (ledgers/canton.md 2.5).
	maxEnvelope = 64 << 10
	// patience is how long the body of an answer may take once its status is known,
	// where the status says (nearly) all.
	patience = 2 * time.Second
)

// reply is a response, and what must not be shown of it.
type reply struct {
	*http.Response
	secret secret
}

// exchange sends one request. A response of any status is no error; an error is a
// [*dlt.Error] of the kind that is certain.
func (c *Client) exchange(req *http.Request, op string) (reply, error) {
	if err := req.Context().Err(); err != nil {
		return reply{}, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	}
	token, err := c.authorize(req.Context(), req.Header, op)
	if err != nil {
		return reply{}, err
	}
	// What is compressed on the way cannot be bounded before it is read.
	req.Header["Accept-Encoding"] = []string{"identity"}
	var asked, got atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	}))
	resp, err := c.http.Do(req) //nolint:bodyclose // the caller drains it
	if err == nil {
		return reply{Response: resp, secret: token}, nil
	}
	// A transport of the caller's that has no hooks proves nothing by their silence.
	unsent := !got.Load() && (asked.Load() || c.direct)
	return reply{}, &dlt.Error{Op: op, Kind: transportKind(err, unsent), Err: token.cause(err)}
}

// authorize asks for a token and adds it to the header.
func (c *Client) authorize(ctx context.Context, h http.Header, op string) (secret, error) {
	if c.token == nil {
		return "", nil
	}
	token, err := c.token(ctx)
	if err != nil {
		// Nothing was sent. The text may hold what the source was told, and is not shown.
		return "", &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: &cause{text: "the token source failed", err: err}}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Message: "the token source returned something that is no token"}
	}
	if token != "" {
		h["Authorization"] = []string{"Bearer " + token}
	}
	return secret(token), nil
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

// secret is the token that a request went out with.
type secret string

// show makes text from outside fit to be shown.
func (s secret) show(text string) string {
	if s != "" {
		text = strings.ReplaceAll(text, string(s), "[redacted]")
	}
	return batch.Excerpt(text, maxText)
}

// cause strips what may be secret from an error's text, and bounds it.
func (s secret) cause(err error) error {
	text := err.Error()
	var u *url.Error
	for e := err; errors.As(e, &u); e = u.Err {
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), strconv.Quote(bareURL(u.URL)))
	}
	return &cause{text: s.show(text), err: err}
}

// bareURL drops user, password, query and fragment.
func bareURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// drain reads the little that is left, so that the connection can be used again.
// cancel is that of the request: a body that does not end must not hold up a caller
// who is answered already.
func drain(body io.ReadCloser, cancel context.CancelFunc) {
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxEnvelope)
	_ = body.Close()
}

// bounded fails, rather than ending, when there is more than left bytes.
type bounded struct {
	r    io.Reader
	left int64
}

var errTooLarge = errors.New("the answer is larger than Options.MaxResponse")

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left+1 { // one more, to see whether there is more
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLarge
	}
	return n, err
}
