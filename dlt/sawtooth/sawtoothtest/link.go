package sawtoothtest

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// linkTo returns the "link" of an answer: the request's query with some values replaced, sorted
// and not escaped (docs/ledgers/sawtooth.md#submitting). A value of "" leaves the key without a
// value.
func linkTo(r *http.Request, path string, changes map[string]string) string {
	query := map[string]string{}
	for key, values := range r.URL.Query() {
		query[key] = values[0]
	}
	maps.Copy(query, changes)
	keys := make([]string, 0, len(query))
	for key := range query {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	parts := make([]string, 0, len(keys))
	for _, key := range keys {
		if query[key] == "" {
			parts = append(parts, key)
		} else {
			parts = append(parts, key+"="+query[key])
		}
	}
	u := cmp.Or(forwardedHeader(r, "proto"), "http") + "://" + cmp.Or(forwardedHeader(r, "host"), r.Host) + forwardedHeader(r, "path") + path
	if len(parts) > 0 {
		u += "?" + strings.Join(parts, "&")
	}
	return u
}

// forwardedHeader returns a value of the header in which a proxy describes the original request.
func forwardedHeader(r *http.Request, key string) string {
	for _, part := range strings.FieldsFunc(r.Header.Get("Forwarded"), func(c rune) bool { return strings.ContainsRune(",; \t", c) }) {
		if k, v, ok := strings.Cut(part, "="); ok && strings.EqualFold(k, key) {
			return strings.Trim(v, `"`)
		}
	}
	return r.Header.Get("X-Forwarded-" + key)
}

// queryValue returns the first value of a key, and whether the query has the key.
func queryValue(u *url.URL, key string) (string, bool) {
	values, ok := u.Query()[key]
	if !ok {
		return "", false
	}
	return values[0], true
}
