package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Redactor hides secrets wherever a text has them: the only one for all clients. It does not
// change, and its methods may be called concurrently. nil hides nothing.
type Redactor struct{ secrets []string }

const (
	// minSecret is the length of the shortest secret, in bytes: shorter ones are no secrets, and
	// may be anywhere.
	minSecret = 4
	// minPart is the length of the shortest part of an address or a header that is hidden by
	// itself: a segment such as "v2" is no key, and to hide it would hide half of all texts.
	minPart = 6
	// minTokenPart is that of a part between dots, as a JWT has them.
	minTokenPart = 16
)

// hidden stands in a text in place of secrets.
const hidden = "[redacted]"

// NewRedactor returns a redactor of the secrets, in each form in which somebody may repeat them.
func NewRedactor(secrets []string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < minSecret {
			continue
		}
		quoted := strconv.Quote(s)
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), quoted[1 : len(quoted)-1]} {
			r.secrets = append(r.secrets, form, escapes.ReplaceAllStringFunc(form, strings.ToLower))
		}
	}
	slices.Sort(r.secrets)
	r.secrets = slices.Compact(r.secrets)
	return r
}

// escapes are the escaped bytes of an address, whose digits have either case.
var escapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// Hide returns the text with "[redacted]" in place of each stretch that secrets cover. Secrets may
// begin, hold or overlap one another: the stretch is all that any of them covers. A text may have
// been cut off, so the beginning of a secret at its end counts, too.
func (r *Redactor) Hide(text string) string {
	if r == nil {
		return text
	}
	type stretch struct{ from, to int }
	var found []stretch
	for _, s := range r.secrets {
		for at := 0; ; at++ {
			i := strings.Index(text[at:], s)
			if i < 0 {
				break
			}
			at += i
			found = append(found, stretch{at, at + len(s)})
		}
		for n := min(len(s), len(text)) - 1; n >= minSecret; n-- {
			if strings.HasSuffix(text, s[:n]) {
				found = append(found, stretch{len(text) - n, len(text)})
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b stretch) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for i, f := range found {
		if i == 0 || f.from > end {
			out.WriteString(text[end:f.from])
			out.WriteString(hidden)
		}
		end = max(end, f.to)
	}
	out.WriteString(text[end:])
	return out.String()
}

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
	for key, values := range u.Query() {
		if add(values...); len(values) == 1 && values[0] == "" {
			add(key) // the key is all there is
		}
	}
	return out
}

// ShownURL is the part of a base URL that may be shown: scheme, host and port, and a digest of the
// rest, if there is any, which tells two endpoints of one host apart.
func ShownURL(u *url.URL) string {
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	if rest := strings.Trim(u.EscapedPath(), "/") + u.RawQuery + u.User.String(); rest != "" {
		shown += fmt.Sprintf("/~%.4x", sha256.Sum256([]byte(rest)))
	}
	return shown
}
