package redact

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
)

// ShownURL returns the part of a base URL that may be shown: scheme, host and port. If the URL has
// more, ShownURL adds a digest of the rest, which distinguishes two endpoints of one host.
func ShownURL(u *url.URL) string {
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	if rest := strings.Trim(u.EscapedPath(), "/") + u.RawQuery + u.User.String(); rest != "" {
		shown += fmt.Sprintf("/~%.4x", sha256.Sum256([]byte(rest)))
	}
	return shown
}

// BareEndpoint cuts off the parts of an endpoint's name that may hold a secret. It does not parse
// the URL, because a text that is not a URL may hold a secret as well.
func BareEndpoint(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i]
	}
	scheme, rest := "", s
	if i := strings.Index(s, "://"); i >= 0 {
		scheme, rest = s[:i+3], s[i+3:]
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		rest = authority[i+1:]
		if path != "" {
			rest += "/" + path
		}
	}
	return scheme + rest
}
