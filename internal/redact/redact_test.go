package redact_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/redact"
)

// No byte of any occurrence of a secret is left in a text, whatever the order of the secrets, and
// whether one begins, contains or overlaps another.
func TestNothingOfASecretRemains(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return string(b)
	}
	for range 2000 {
		var secrets []string
		for range 1 + r.IntN(4) {
			secrets = append(secrets, word(4+r.IntN(6)))
		}
		text := strings.Repeat("x", r.IntN(3)) + word(r.IntN(30)) + strings.Repeat("y", 1+r.IntN(3))
		covered := make([]bool, len(text))
		for _, s := range secrets {
			for at := range text {
				if strings.HasPrefix(text[at:], s) {
					for i := range s {
						covered[at+i] = true
					}
				}
			}
		}
		var want strings.Builder
		for i, c := range covered {
			switch {
			case !c:
				want.WriteByte(text[i])
			case i == 0 || !covered[i-1]:
				want.WriteString("[redacted]")
			}
		}
		for range 3 {
			r.Shuffle(len(secrets), func(i, j int) { secrets[i], secrets[j] = secrets[j], secrets[i] })
			assert.Equal(t, want.String(), redact.New(secrets).Hide(text), "%q in %q", secrets, text)
		}
	}
}

// A secret is hidden in each form in which a text may repeat it.
func TestFormsOfSecrets(t *testing.T) {
	const key = `k/9 +"z%&=ü` + "abcdefghijkl"
	basic := base64.StdEncoding.EncodeToString([]byte("someone:pass-word-1"))
	u, err := url.Parse("https://someone:pass-word-1@node.example:8443/v2/path-key-123/x?apikey=query-key-456&only-a-key-789")
	require.NoError(t, err)
	secrets := redact.HeaderSecrets(http.Header{
		"X-Key":         {key, "a-longer-value", "a-longer-value-behind"},
		"Authorization": {"Basic " + basic, "Bearer OAuth2:token-1234", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJzb21lYm9keSJ9.c2lnbmF0dXJlLW9mLWl0"},
		"Forwarded":     {`for="someone-else-1";token=tk-98765, next=tk-43210`},
	})
	secrets = append(secrets, redact.URLSecrets(u)...)
	r := redact.New(secrets)
	for _, text := range []string{
		key, url.QueryEscape(key), url.PathEscape(key), strings.ToLower(url.QueryEscape("/+%")), "a-longer-value", "a-longer-value-behind",
		"Basic " + basic, basic, "someone:pass-word-1", "pass-word-1", "OAuth2:token-1234", "token-1234",
		"eyJzdWIiOiJzb21lYm9keSJ9", "c2lnbmF0dXJlLW9mLWl0", "tk-98765", "tk-43210", "path-key-123", "query-key-456", "only-a-key-789",
		u.String()[strings.Index(u.String(), "someone"):strings.Index(u.String(), "@")],
	} {
		if !strings.Contains(text, "%") || strings.Contains(text, "abc") {
			got := r.Hide("he said <" + text + ">")
			assert.NotContains(t, got, text)
			assert.Equal(t, "he said <[redacted]>", strings.Replace(got, "Basic [redacted]", "[redacted]", 1))
		}
	}
	for name, text := range map[string]string{
		"Go's JSON":  `k/9 +\"z%\u0026=ü` + "abcdefghijkl",
		"PHP's JSON": `k\/9 +\"z%&=ü` + "abcdefghijkl",
		"HTML":       `k/9 +&#34;z%&amp;=ü` + "abcdefghijkl",
	} {
		assert.Equal(t, "he said [redacted].", r.Hide("he said "+text+"."), name)
	}
	lower := strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(key), "%2F", "%2f"), "%2B", "%2b")
	lower = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(lower, "%C3", "%c3"), "%BC", "%bc"), "%3D", "%3d")
	assert.Equal(t, "[redacted]", r.Hide(lower))
	for _, cut := range []int{5, 9, len(key) - 1} {
		assert.Equal(t, "cut off: [redacted]", r.Hide("cut off: "+key[:cut]))
	}
	assert.Equal(t, "the node at node.example:8443, v2", r.Hide("the node at node.example:8443, v2"))
	u, err = url.Parse("http://node/?key=one-key-1;two-key-2&k=50%off-key-3")
	require.NoError(t, err)
	unread := redact.New(redact.URLSecrets(u))
	for _, text := range []string{"one-key-1", "two-key-2", "50%off-key-3"} {
		assert.Equal(t, "he said [redacted].", unread.Hide("he said "+text+"."), "url.ParseQuery reads none of it")
	}
	u, err = url.Parse("http://node:8008/k1")
	require.NoError(t, err)
	short := redact.New(redact.URLSecrets(u))
	assert.Equal(t, `Post "http://[redacted]/batches": refused`, short.Hide(`Post "http://node:8008/k1/batches": refused`))
	assert.Equal(t, "no k1 without its host", short.Hide("no k1 without its host"))
	var none *redact.Redactor
	assert.Equal(t, "text", none.Hide("text"))
}

// The shown name of an endpoint has no part of its URL that may be a key, and two endpoints have
// different names.
func TestShownURL(t *testing.T) {
	var names []string
	for _, s := range []string{
		"http://node:8008", "https://node:8008/", "http://node:8008/key-one", "http://node:8008/key-two", "http://node:8008/api/key-one",
		"http://node:8008?k=key-one", "http://user:key-one@node:8008",
	} {
		u, err := url.Parse(s)
		require.NoError(t, err)
		name := redact.ShownURL(u)
		assert.NotContains(t, name, "key-")
		assert.NotContains(t, name, "user")
		assert.Contains(t, name, "//node:8008")
		names = append(names, name)
	}
	assert.Equal(t, "http://node:8008", names[0])
	slices.Sort(names)
	assert.Len(t, slices.Compact(names), 7)
}

// An argument that may hold a password is hidden completely, and the rest of the error stays.
func TestArgument(t *testing.T) {
	for arg, c := range map[string]struct{ text, want string }{
		"postgres://a:b c@h":    {`unknown command "postgres://a:b c@h" for "dltbatch"`, `unknown command "[redacted]" for "dltbatch"`},
		"x password='it\\'s d'": {`in "x password='it\\'s d'": x and x password='it\'s d'`, `in "[redacted]": x and [redacted]`},
		"-vpostgres://a:b c@h":  {`'p' in -postgres://a:b c@h`, `'p' in -[redacted]`},
		"--p://a:b c=d":         {`unknown flag: --p://a:b c`, `unknown flag: [redacted]`},
		"list":                  {`list: a password is needed`, `list: a password is needed`},
		"my PASSWORD=a \x00b c": {"wants \"PASSWORD=a \ufffdb\"", `wants "[redacted]"`},
	} {
		assert.Equal(t, c.want, redact.HideArgument(c.text, arg, strings.ReplaceAll(arg, "\x00", "\ufffd")), "%q", arg)
	}
}

// In both forms of a data source name the password is hidden, and the rest stays.
func TestDSN(t *testing.T) {
	for text, want := range map[string]string{
		"no postgres://ada:pass@h/db here":          "no postgres[redacted]h/db here",
		"host=h password=pa'ss user=ada":            "host=h [redacted] user=ada",
		`host=h PASSWORD = 'it\'s mine' user=ada`:   "host=h [redacted] user=ada",
		`sslkey="a \" b" sslpassword=x passfile=/y`: "[redacted] [redacted] [redacted]",
		"a password is needed":                      "a password is needed",
	} {
		assert.Equal(t, want, redact.DSN(text))
	}
}

// A name of an endpoint from outside loses credentials, query and fragment, whether it is a URL or
// not.
func TestBareEndpoint(t *testing.T) {
	for name, want := range map[string]string{
		"http://node:8008/api":                  "http://node:8008/api",
		"http://ada:pass@node:8008/api?key=1#x": "http://node:8008/api",
		"ada:pa@ss@node/x":                      "node/x",
		"node?key":                              "node",
		"http://node/a@b":                       "http://node/a@b",
		"":                                      "",
	} {
		assert.Equal(t, want, redact.BareEndpoint(name))
	}
}

// The text of a cause has no secret of any URL, and no error that it wraps has a URL in a field.
func TestCause(t *testing.T) {
	cut := errors.New("cut off")
	err := redact.ShownError(fmt.Errorf("again: %w", &url.Error{
		Op: "Post", URL: "http://ada:pass@node:8008/key-path?key=query#f",
		Err: fmt.Errorf("moved: %w", &url.Error{Op: "Get", URL: "http://\x7f/key-path", Err: cut}),
	}), redact.New([]string{"key-path"}).Hide)
	require.EqualError(t, err, `again: Post "http://node:8008/[redacted]": moved: Get "(unreadable URL)": cut off`)
	require.ErrorIs(t, err, cut)
	_, found := errors.AsType[*url.Error](err)
	require.False(t, found)
}
