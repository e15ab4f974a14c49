package wire

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// FillDefault sets an option to its default if it is 0. It returns a [*batch.InputError] that
// names the option if the value is negative.
func FillDefault[T int | int64 | time.Duration](name string, value *T, def T) error {
	if *value < 0 {
		return &batch.InputError{Field: "Options." + name, Value: fmt.Sprint(*value), Want: "0 (default) or more"}
	}
	if *value == 0 {
		*value = def
	}
	return nil
}

// CheckHeader refuses, when a client is made, headers that would fail with every request and
// headers that the client sets itself. own names more headers of the second kind, in canonical
// form. The error is a [*batch.InputError], and never shows a value.
func CheckHeader(h http.Header, own ...string) error {
	for name, values := range h {
		refuse := func(want string) error {
			return &batch.InputError{Field: "Options.Header", Value: batch.Excerpt(name, 64), Want: want}
		}
		canonical := http.CanonicalHeaderKey(name)
		switch canonical {
		case "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Expect", "Connection", "Host", "Cookie":
			return refuse("no header that the client sets itself or never sends")
		}
		if canonical == acceptEncoding && (name != canonical || slices.ContainsFunc(values, func(v string) bool { return !dropUndecodable(v) })) {
			return refuse("Accept-Encoding, and of it gzip or identity")
		}
		if slices.Contains(own, canonical) {
			return refuse("no header that the client sets itself or never sends")
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			return refuse("the name of a header")
		}
		if !slices.ContainsFunc(values, func(v string) bool { return !Printable(v) }) {
			continue
		}
		return refuse("a value without control characters")
	}
	return nil
}

// Printable reports whether a header's value has no control characters but tabs.
func Printable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f })
}

// NewTransport returns a client's own transport. It closes a connection that was unused for idle.
func NewTransport(config *tls.Config, idle time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig:     config.Clone(),
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idle,
	}
}

// EnableHTTP2 lets a transport use HTTP/2. There, a request whose context ends leaves its
// connection open, and a dead connection would get all later requests, so pings look for dead
// connections.
func EnableHTTP2(t *http.Transport) {
	t.ForceAttemptHTTP2 = true
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}
}

// NewClient returns the client for all requests: a copy of the user's client or, if given is nil,
// one with the transport own. It keeps no cookies and follows no redirects, because a followed
// redirect is a second POST that nobody has counted.
func NewClient(given *http.Client, own *http.Transport) *http.Client {
	c := http.Client{Transport: own}
	if given != nil {
		c = *given
	}
	c.Jar = nil
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// CheckTLS refuses a TLS configuration together with a user's client, which would not use it. The
// error is a [*batch.InputError].
func CheckTLS(given *http.Client, config *tls.Config) error {
	if given != nil && config != nil {
		return &batch.InputError{Field: "Options.TLSConfig", Want: "nil where Options.Client is set: it belongs into the client's transport"}
	}
	return nil
}

// ParseURL reads a node's base URL. The error is a [*batch.InputError] for field, and never shows
// the URL, which may contain a password. example is a valid URL, and auth names the options that
// carry authorization; both appear in the error.
func ParseURL(field, s, example, auth string) (*url.URL, error) {
	refuse := func(want string) (*url.URL, error) { return nil, &batch.InputError{Field: field, Want: want} }
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return refuse("an http or https URL with a host, such as " + example)
	case !isValidPort(u.Port()):
		return refuse("a port from 1 to 65535")
	case u.User != nil:
		return refuse("no user or password in the URL; " + auth + " authorization")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return refuse("no query and no fragment in the URL")
	}
	return u, nil
}

func isValidPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || (err == nil && n > 0)
}
