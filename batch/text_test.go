package batch_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"plain", 10, "plain"},
		{"plain", 5, "plain"},
		{"plain", 4, "plai"},
		{"plain", 0, ""},
		{"a\x00b", 10, "a\ufffdb"},
		{"one\n\ttwo", 10, "one\n\ttwo"},
		{"\x1b[31m\r\x7f\u0085", 50, "\ufffd[31m\ufffd\ufffd\ufffd"},
		{"a\xffb", 10, "a\ufffdb"},
		{"a\xff\xfeb", 10, "a\ufffdb"},
		{"日本語", 9, "日本語"},
		{"日本語", 8, "日本"},
		{"日本語", 7, "日本"},
		{"日本語", 6, "日本"},
		{"🦆🦆", 7, "🦆"},
		{"🦆", 3, ""},
		{"x\x00", 3, "x"},
		{strings.Repeat("x", 1<<20), 1024, strings.Repeat("x", 1024)},
	} {
		assert.Equal(t, c.want, batch.Excerpt(c.in, c.limit), "%q to %d", c.in[:min(len(c.in), 20)], c.limit)
	}
}

func FuzzExcerpt(f *testing.F) {
	for _, s := range []string{"", "plain", "a\x00\xff\xc3", "日本語🦆", "\u0085\x1b", strings.Repeat("\xf0\x9f\xa6", 9)} {
		f.Add(s, uint16(7))
	}
	f.Fuzz(func(t *testing.T, s string, n uint16) {
		limit := int(n)
		got := batch.Excerpt(s, limit)
		assert.LessOrEqual(t, len(got), limit)
		assert.True(t, utf8.ValidString(got))
		assert.NotContains(t, got, "\x00")
		for _, r := range got {
			assert.False(t, unicode.IsControl(r) && r != '\n' && r != '\t', "%q", r)
		}
		assert.Equal(t, got, batch.Excerpt(got, limit), "twice is as once")
		clean := strings.ToValidUTF8(s, "?")
		clean = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return '.'
			}
			return r
		}, clean)
		kept := batch.Excerpt(clean, limit)
		assert.True(t, strings.HasPrefix(clean, kept), "of a clean text it is the beginning")
		if len(kept) < len(clean) {
			assert.Greater(t, len(kept)+utf8.UTFMax, limit, "and no more is cut than a rune needs")
		}
	})
}
