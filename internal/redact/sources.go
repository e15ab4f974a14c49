package redact

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// HeaderSecrets returns the secrets in the values of a header: each value, its parts, and what
// Basic authorization encodes.
func HeaderSecrets(h http.Header) (out []string) {
	for _, values := range h {
		for _, v := range values {
			out = append(out, TokenSecrets(v)...)
			scheme, credential, _ := strings.Cut(strings.TrimSpace(v), " ")
			out = append(out, TokenSecrets(credential)...) // "Bearer abc"
			if strings.EqualFold(scheme, "Basic") {
				out = append(out, basicSecrets(credential)...)
			}
		}
	}
	return out
}

// basicSecrets returns what Basic authorization encodes (RFC 7617).
func basicSecrets(credential string) []string {
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credential))
	if err != nil {
		return nil
	}
	user, password, _ := strings.Cut(string(text), ":")
	return []string{string(text), user, password}
}

// TokenSecrets returns a token, and the parts of it that are secrets by themselves.
func TokenSecrets(token string) []string {
	out := []string{token}
	if _, credential, ok := strings.Cut(token, ":"); ok { // "OAuth2:abc"
		out = append(out, credential)
	}
	parts := strings.FieldsFunc(token, func(r rune) bool { return strings.ContainsRune(" ,;=:&\"", r) })
	for _, p := range parts { // of a list, and of pairs
		if len(p) >= minPart {
			out = append(out, p)
		}
		for jwt := range strings.SplitSeq(p, ".") {
			if len(jwt) >= minTokenPart {
				out = append(out, jwt)
			}
		}
	}
	return out
}

// URLSecrets returns the parts of an address that may be keys: all but scheme, host and port.
// Providers put keys into any of them.
func URLSecrets(u *url.URL) (out []string) {
	add := func(parts ...string) {
		for _, p := range parts {
			if len(p) >= minPart {
				out = append(out, p)
			}
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		pair := u.User.Username() + ":" + password
		// net/http sends it as Basic authorization.
		out = append(out, u.User.Username(), password, pair, base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	add(u.RawQuery)
	for _, path := range []string{u.Path, u.EscapedPath()} {
		add(strings.Split(path, "/")...)
		if path = strings.TrimRight(path, "/"); path != "" {
			out = append(out, u.Host+path) // a short path, too, where it is an address's
		}
	}
	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		// Of each pair, also where url.ParseQuery reads none: providers may read them otherwise.
		key, value, _ := strings.Cut(pair, "=")
		value = cmp.Or(value, key) // where the key is all there is
		add(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			add(plain)
		}
	}
	return out
}
