// Package wire is the common part of the clients of HTTP ledgers: their options and HTTP client,
// the certainty after a request without an answer, and bounded reads of answers.
package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/dlt"
)

// SentState says how far a request without an answer got.
type SentState uint8

// How far a request got.
const (
	MaybeSent      SentState = iota // its bytes may have arrived
	MaybeSentFresh                  // likewise, on a connection that was opened for it
	NotSent                         // certainly nothing was sent
)

// TraceRequest returns a context for one request, and a func that reports, after the request, how
// far it got. direct means that the transport calls the trace hooks; the silence of a caller's
// transport without hooks proves nothing.
func TraceRequest(ctx context.Context, direct bool) (context.Context, func() SentState) {
	var asked, fresh, reused atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(i httptrace.GotConnInfo) {
			fresh.Store(!i.Reused)
			reused.Store(reused.Load() || i.Reused)
		},
	})
	return ctx, func() SentState {
		switch {
		case reused.Load():
			return MaybeSent
		case fresh.Load():
			return MaybeSentFresh
		case asked.Load() || direct:
			return NotSent
		}
		return MaybeSent
	}
}

// IsOwnTransport reports whether a client's transport is its own. A given *http.Transport may have
// another one inside (RegisterProtocol), which sends without a word to the hooks of a trace.
func IsOwnTransport(given *http.Client) bool { return given == nil }

// SendTraceParent adds the traceparent of ctx to a header that has none.
func SendTraceParent(ctx context.Context, h http.Header) {
	const name = "Traceparent"
	if parent := dlt.TraceParent(ctx); parent != "" && h[name] == nil {
		h[name] = []string{parent}
	}
}

// KindOf classifies an error without a response: nothing was sent if there never was a
// connection; anything may have happened if there was one. But a server that refuses the client's
// certificate hears nothing of the request, although TLS 1.3 lets the client send it before.
func KindOf(err error, sent SentState) error {
	switch {
	case sent == MaybeSentFresh && refusesCertificate(err):
		return dlt.ErrMisconfigured
	case sent != NotSent:
		return dlt.ErrDoubt
	case isTLSError(err):
		return dlt.ErrMisconfigured // the next batch fails, too, until a person acts
	default:
		return dlt.ErrUnavailable
	}
}

func isTLSError(err error) bool {
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
		(errors.As(err, &op) && op.Op == "remote error") // crypto/tls marks the other side's alerts so
}

// refusesCertificate reports whether the other side's TLS refused the certificate of this side, or
// its absence: alerts of RFC 8446, section 6.2. Their type in crypto/tls has no name outside of
// it.
func refusesCertificate(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return false
	}
	switch v.Uint() {
	case 42, 43, 44, 45, 46, 48, 49, 116: // from bad_certificate to access_denied, and certificate_required
		return true
	}
	return false
}
