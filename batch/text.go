package batch

import (
	"strconv"
	"strings"
	"unicode"
)

// Excerpt makes outside text fit to be logged and stored: valid UTF-8, no control characters
// except newline and tab (each other one becomes U+FFFD), and at most limit bytes.
func Excerpt(s string, limit int) string {
	if len(s) > limit+4 { // keeps one more rune, so that the cut below is on a boundary
		s = s[:limit+4]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut]
}

func numberText(n int) string { return strconv.Itoa(n) }
