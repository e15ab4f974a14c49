package redact

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// HeaderSecrets returns the secrets in the values of a header: each value, its parts, and the text
// that Basic authorization encodes.
func HeaderSecrets(h http.Header) (out []string) {
	for _, values := range h {
		for _, v := range values {
			out = append(out, TokenSecrets(v)...)
			scheme, credential, _ := strings.Cut(strings.TrimSpace(v), " ")
			out = append(out, TokenSecrets(credential)...) // for "Bearer abc"
			if strings.EqualFold(scheme, "Basic") {
				out = append(out, basicSecrets(credential)...)
			}
		}
	}
	return out
}

// basicSecrets returns the secrets that Basic authorization encodes (RFC 7617).
func basicSecrets(credential string) []string {
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credential))
	if err != nil {
		return nil
	}
	user, password, _ := strings.Cut(string(text), ":")
	return []string{string(text), user, password}
}

// TokenSecrets returns a token, and its parts that are secrets by themselves.
func TokenSecrets(token string) []string {
	out := []string{token}
	if _, credential, ok := strings.Cut(token, ":"); ok { // for "OAuth2:abc"
		out = append(out, credential)
	}
	parts := strings.FieldsFunc(token, func(r rune) bool { return strings.ContainsRune(" ,;=:&\"", r) })
	for _, p := range parts { // parts of a list, and of pairs
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
// Providers put keys into any of the other parts.
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
		// net/http sends user and password as Basic authorization.
		out = append(out, u.User.Username(), password, pair, base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	add(u.RawQuery)
	for _, path := range []string{u.Path, u.EscapedPath()} {
		add(strings.Split(path, "/")...)
		if path = strings.TrimRight(path, "/"); path != "" {
			out = append(out, u.Host+path) // even a short path, together with its host
		}
	}
	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		// Each pair counts, even if url.ParseQuery reads none, because providers may read the
		// query in another way.
		key, value, _ := strings.Cut(pair, "=")
		value = cmp.Or(value, key) // the key may be all there is
		add(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			add(plain)
		}
	}
	return out
}
