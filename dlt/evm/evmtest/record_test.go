package evmtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A record has the requests to a real node and its answers. "### " begins a title, "-- " a remark,
// "> " the body of a request, and "< HTTP " the status, content type and body of the answer; "<
// ERROR" stands for none. A long body ends with "... (280310 bytes)".
type recordLine struct {
	number     int
	title      string // the title of its part of the record
	remark     string
	request    string // the request's body
	fullLength int    // the body's full length if the record cut it; else 0
	answer     recordedAnswer
}

type recordedAnswer struct {
	failed      bool // true if there was no answer
	status      int
	contentType string
	body        string
	fullLength  int
}

var (
	cutPattern    = regexp.MustCompile(`\.\.\. \((\d+) bytes\)$`)
	answerPattern = regexp.MustCompile(`^< HTTP (\d+) (\S*?)(; charset=\S+)? (.*)$`)
)

func splitCutMark(s string) (string, int) {
	m := cutPattern.FindStringSubmatch(s)
	if m == nil {
		return s, 0
	}
	size, err := strconv.Atoi(m[1])
	if err != nil {
		return s, 0
	}
	return strings.TrimSuffix(s, m[0]), size
}

func readRecord(t *testing.T, name string) (out []recordLine) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "nodes", name))
	require.NoError(t, err)
	title := ""
	for i, s := range strings.Split(string(text), "\n") {
		at := fmt.Sprintf("%s:%d", name, i+1)
		switch {
		case s == "":
		case strings.HasPrefix(s, "### "):
			title = s[4:]
		case strings.HasPrefix(s, "-- "):
			out = append(out, recordLine{number: i + 1, title: title, remark: s[3:]})
		case strings.HasPrefix(s, "> "):
			l := recordLine{number: i + 1, title: title}
			l.request, l.fullLength = splitCutMark(s[2:])
			out = append(out, l)
		case strings.HasPrefix(s, "< "):
			require.NotEmpty(t, out, at)
			l := &out[len(out)-1]
			require.NotEmpty(t, l.request, at)
			if strings.HasPrefix(s, "< ERROR ") {
				l.answer.failed = true
				continue
			}
			m := answerPattern.FindStringSubmatch(s)
			require.NotNil(t, m, at)
			l.answer.status, err = strconv.Atoi(m[1])
			require.NoError(t, err)
			l.answer.contentType = m[2] + m[3]
			l.answer.body, l.answer.fullLength = splitCutMark(m[4])
		default:
			require.Fail(t, "a line of no known form", at)
		}
	}
	return out
}

// chainSpecificKeys are the fields that differ from chain to chain. Only the type and the length
// of their values are compared.
var chainSpecificKeys = []string{"blockHash", "parentHash", "stateRoot", "transactionsRoot", "receiptsRoot", "mixHash", "timestamp", "blockTimestamp", "size"}

// compareAnswer lists how an answer differs from the recorded one.
func compareAnswer(want recordedAnswer, status int, contentType, body string) (out []string) {
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if want.status != status {
		differ("status %d, the record has %d", status, want.status)
	}
	if want.contentType != contentType {
		differ("content type %q, the record has %q", contentType, want.contentType)
	}
	body = strings.TrimSpace(body)
	if want.fullLength > 0 {
		compareBeginning(want, body, differ)
		return out
	}
	var a, b any
	if json.Unmarshal([]byte(want.body), &a) != nil || json.Unmarshal([]byte(body), &b) != nil {
		if want.body != body {
			differ("body %q, the record has %q", body, want.body)
		}
		return out
	}
	compareValues("", a, b, differ)
	return out
}

// keyValuePattern matches a key and a value of a JSON object.
var keyValuePattern = regexp.MustCompile(`"(\w+)":("[^"]*"|null|true|false|[0-9.]+)[,}\]]`)

// compareBeginning compares the part of a long object that the record has, and the whole length.
func compareBeginning(want recordedAnswer, body string, differ func(string, ...any)) {
	var got struct{ Result map[string]any }
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		differ("%v", err)
		return
	}
	_, text, _ := strings.Cut(want.body, `"result":{`)
	for _, m := range keyValuePattern.FindAllStringSubmatch(text, -1) {
		have, ok := got.Result[m[1]]
		if !ok {
			differ("no %s", m[1])
			continue
		}
		var a any
		if json.Unmarshal([]byte(m[2]), &a) == nil {
			isBlock := got.Result["parentHash"] != nil
			compareField("."+m[1], m[1], isBlock, a, have, differ)
		}
	}
	if len(body) != want.fullLength {
		differ("%d bytes, the record has %d: %v", len(body), want.fullLength, slices.Sorted(maps.Keys(got.Result)))
	}
}

func compareField(at, key string, isBlock bool, a, b any, differ func(string, ...any)) {
	if slices.Contains(chainSpecificKeys, key) || isBlock && key == "hash" {
		x, y := fmt.Sprintf("%T", a), fmt.Sprintf("%T", b)
		if s, ok := a.(string); ok && x == y && len(s) != len(b.(string)) {
			differ("%s: %v, the record has %v", at, b, a)
		}
		if x != y {
			differ("%s: %v, the record has %v", at, b, a)
		}
		return
	}
	compareValues(at, a, b, differ)
}

func compareValues(at string, a, b any, differ func(string, ...any)) {
	switch a := a.(type) {
	case map[string]any:
		have, ok := b.(map[string]any)
		if !ok {
			differ("%s: %v, the record has an object", at, b)
			return
		}
		x, y := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(have))
		if !slices.Equal(x, y) {
			differ("%s: the keys %v, the record has %v", at, y, x)
			return
		}
		for _, key := range x {
			compareField(at+"."+key, key, a["parentHash"] != nil, a[key], have[key], differ)
		}
	case []any:
		have, ok := b.([]any)
		if !ok || len(a) != len(have) {
			differ("%s: %v, the record has %v", at, b, a)
			return
		}
		for i := range a {
			compareValues(fmt.Sprintf("%s[%d]", at, i), a[i], have[i], differ)
		}
	default:
		if a != b {
			differ("%s: %v, the record has %v", at, b, a)
		}
	}
}
