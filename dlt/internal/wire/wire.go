// Package wire is the common part of the clients of HTTP ledgers: their options and HTTP client,
// what is certain after a request without an answer, and limited reads of answers.
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
	MaybeSent      SentState = iota // the request's bytes may have arrived
	MaybeSentFresh                  // its bytes may have arrived, over a connection opened for it
	NotSent                         // certainly nothing was sent
)

// TraceRequest returns a context for one request, and a func that reports, after the request, how
// far the request got. direct is true if the transport calls the trace hooks. If it is false,
// calls of the hooks that are missing prove nothing.
func TraceRequest(ctx context.Context, direct bool) (context.Context, func() SentState) {
	var wantsConnection, isNewConnection, isReusedConnection atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { wantsConnection.Store(true) },
		GotConn: func(i httptrace.GotConnInfo) {
			isNewConnection.Store(!i.Reused)
			isReusedConnection.Store(isReusedConnection.Load() || i.Reused)
		},
	})
	return ctx, func() SentState {
		switch {
		case isReusedConnection.Load():
			return MaybeSent
		case isNewConnection.Load():
			return MaybeSentFresh
		case wantsConnection.Load() || direct:
			return NotSent
		}
		return MaybeSent
	}
}

// IsOwnTransport reports whether a client's transport is the library's own. A user's
// *http.Transport may contain another transport (RegisterProtocol), which sends without calling
// the trace hooks.
func IsOwnTransport(given *http.Client) bool { return given == nil }

// SendTraceParent adds the traceparent of ctx to a header that has none.
func SendTraceParent(ctx context.Context, h http.Header) {
	const name = "Traceparent"
	if parent := dlt.TraceParent(ctx); parent != "" && h[name] == nil {
		h[name] = []string{parent}
	}
}

// KindOf returns the kind of an error without a response. Nothing was sent if there was no
// connection, and anything may have happened if there was one. The exception is a server that
// refuses the client's certificate: it processes no request, although TLS 1.3 lets the client send
// one before the refusal.
func KindOf(err error, sent SentState) error {
	switch {
	case sent == MaybeSentFresh && refusesCertificate(err):
		return dlt.ErrMisconfigured
	case sent != NotSent:
		return dlt.ErrDoubt
	case isTLSError(err):
		return dlt.ErrMisconfigured // the next batch fails, too, until a person changes the configuration
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
		(errors.As(err, &op) && op.Op == "remote error") // crypto/tls marks alerts from the other side with this
}

// refusesCertificate reports whether the other side has refused this side's certificate, or the
// lack of one: by an alert of RFC 8446, section 6.2. The type of such an alert is not exported by
// crypto/tls.
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
	case 42, 43, 44, 45, 46, 48, 49, 116: // bad_certificate to access_denied, and certificate_required
		return true
	}
	return false
}
