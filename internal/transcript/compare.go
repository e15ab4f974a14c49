package transcript

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Comparer compares answers. The zero value compares all texts and numbers of a body, except
// ids and addresses of hosts.
type Comparer struct {
	// Free has the keys of JSON objects whose value may be any of the same JSON type: times,
	// nonces, payloads.
	Free []string
}

var (
	shortenedID = regexp.MustCompile(`[0-9a-zA-Z]{10}~`)
	longHex     = regexp.MustCompile(`[0-9a-zA-Z]{60,}`)
	hostInURL   = regexp.MustCompile(`(https?|tcp)://[0-9a-zA-Z.\-]+(:\d+)?`)
)

// maskIDs replaces every id and every host, which differ from run to run, by a mark.
func maskIDs(s string) string {
	s = shortenedID.ReplaceAllString(s, "ID")
	s = longHex.ReplaceAllString(s, "ID")
	return hostInURL.ReplaceAllString(s, "$1://HOST")
}

// Differences lists the differences of an answer from the recorded answer: in status, content
// type, or body. JSON bodies are equal if they have the same keys, types, numbers of elements,
// texts and numbers. Parts that the record cut off or does not have are not compared. nil means no
// difference.
func (c Comparer) Differences(record, got Answer) []string {
	var out []string
	if record.Status != 0 && record.Status != got.Status {
		out = append(out, fmt.Sprintf("status: got %d, the record has %d", got.Status, record.Status))
	}
	if record.Header != nil {
		if a, b := record.Header.Get("Content-Type"), got.Header.Get("Content-Type"); a != b {
			out = append(out, fmt.Sprintf("content type: got %q, the record has %q", b, a))
		}
	}
	if record.Cut {
		return out
	}
	var want, have any
	wantErr, haveErr := json.Unmarshal([]byte(record.Body), &want), json.Unmarshal([]byte(got.Body), &have)
	if wantErr == nil && haveErr == nil {
		return c.compareShape(out, "body", want, have)
	}
	if a, b := maskIDs(record.Body), maskIDs(got.Body); a != b {
		out = append(out, fmt.Sprintf("body: got %q, the record has %q", clipLine(b), clipLine(a)))
	}
	return out
}

func (c Comparer) compareShape(out []string, at string, want, have any) []string {
	differ := func(what string, a, b any) []string {
		return append(out, fmt.Sprintf("%s: got %s %v, the record has %v", at, what, b, a))
	}
	switch want := want.(type) {
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			return differ("a", "an object", jsonKind(have))
		}
		a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(object))
		if !slices.Equal(a, b) {
			return differ("the keys", a, b)
		}
		for _, key := range a {
			if slices.Contains(c.Free, key) {
				if x, y := jsonKind(want[key]), jsonKind(object[key]); x != y {
					out = append(out, fmt.Sprintf("%s.%s: got a %s, the record has a %s", at, key, y, x))
				}
				continue
			}
			out = c.compareShape(out, at+"."+key, want[key], object[key])
		}
	case []any:
		array, ok := have.([]any)
		if !ok {
			return differ("a", "an array", jsonKind(have))
		}
		if len(want) != len(array) {
			return differ("the length", len(want), len(array))
		}
		for i := range want {
			out = c.compareShape(out, fmt.Sprintf("%s[%d]", at, i), want[i], array[i])
		}
	case string:
		text, ok := have.(string)
		if !ok {
			return differ("a", "a string", jsonKind(have))
		}
		if a, b := maskIDs(want), maskIDs(text); a != b {
			return differ("the text", fmt.Sprintf("%q", strings.TrimSpace(a)), fmt.Sprintf("%q", strings.TrimSpace(b)))
		}
	default: // a number, a boolean or null
		if want != have {
			return differ("the value", want, have)
		}
	}
	return out
}

func jsonKind(x any) string {
	switch x.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}
