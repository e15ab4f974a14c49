// Package wire is what the clients of ledgers that speak HTTP do alike: what is certain
// after a request that got no answer, what is shown of its error, and how much is read of
// an answer.
package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/dlt"
)

// Trace returns a context for one request, and a func that says after it whether it
// is certain that nothing was sent. direct says that the transport has hooks: one of the
// caller's that has none proves nothing by their silence.
func Trace(ctx context.Context, direct bool) (context.Context, func() bool) {
	var asked, got atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	return ctx, func() bool { return !got.Load() && (asked.Load() || direct) }
}

// Kind says what is certain after an error without a response: nothing was sent where
// there never was a connection, and anything may have happened where there was one.
func Kind(err error, unsent bool) error {
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

// ShownError is an error whose text is fit to be shown.
type ShownError struct {
	Text string
	Err  error
}

func (e *ShownError) Error() string { return e.Text }

// Unwrap returns the error whose text is not shown.
func (e *ShownError) Unwrap() error { return e.Err }

// Shown strips what may be secret from the URLs in an error's text; show does the rest,
// and bounds it.
func Shown(err error, show func(string) string) error {
	text := err.Error()
	var u *url.Error
	for e := err; errors.As(e, &u); e = u.Err {
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), strconv.Quote(bareURL(u.URL)))
	}
	return &ShownError{Text: show(text), Err: err}
}

// bareURL drops user, password, query and fragment.
func bareURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
