// Package redact keeps secrets out of texts, for all clients of ledgers, the stored reports and
// the command. Nothing else in this module hides a secret.
//
//   - [Redactor] hides known secrets: [HeaderSecrets], [TokenSecrets] and [URLSecrets] find them
//     in the parts of a request, and [ShownError] makes an error of net/http safe to show.
//   - [ShownURL] names an endpoint, and [BareEndpoint] cuts a name that comes from outside.
//   - [DSN] hides passwords, and [HideArgument] hides an argument typed in the wrong place.
package redact

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Redactor hides secrets wherever a text has them. It is immutable, and its methods may be called
// concurrently. A nil Redactor hides nothing.
type Redactor struct{ secrets []string }

const (
	// minSecret is the length of the shortest text that counts as a secret, in bytes. Shorter
	// texts may occur anywhere.
	minSecret = 4
	// minPart is the length of the shortest part of an address or a header that is hidden by
	// itself. A segment such as "v2" is no key, and to hide it would hide half of all texts.
	minPart = 6
	// minTokenPart is minPart for a part between dots, as a JWT has them.
	minTokenPart = 16
)

// hidden replaces secrets in a text.
const hidden = "[redacted]"

// New returns a redactor of the secrets, in each form in which a text may repeat them.
func New(secrets []string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < minSecret {
			continue
		}
		// Writers of JSON escape different characters: Go's <, > and &, PHP's the slash.
		for _, form := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), inQuotes(s), inJSON(s), strings.ReplaceAll(inQuotes(s), "/", `\/`),
		} {
			r.secrets = append(r.secrets, form, escapeForm.ReplaceAllStringFunc(form, strings.ToLower))
		}
	}
	slices.Sort(r.secrets)
	r.secrets = slices.Compact(r.secrets)
	return r
}

// inJSON returns a text in the form of encoding/json, without the quotes.
func inJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // impossible
		return s
	}
	return string(text[1 : len(text)-1])
}

// escapeForm matches the escaped bytes of an address, whose hex digits may have either case.
var escapeForm = regexp.MustCompile(`%[0-9A-F]{2}`)

// Hide returns the text with "[redacted]" in place of each stretch that secrets cover. Secrets may
// begin, contain or overlap one another: the stretch is all that any of them covers. A text may
// have been cut off, so the beginning of a secret at its end counts, too.
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
