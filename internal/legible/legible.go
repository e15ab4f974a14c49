// Package legible makes texts from outside fit to be shown in the log, the command and the
// console: names of lanes, ids, reasons and errors come from strangers, and a person decides by
// what the screen shows.
package legible

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text with its invisible characters written out, such as \u202e: marks of
// direction, by which one name can look like another, spaces of no width, and control characters.
// It keeps joiners, which some languages need.
func Text(s string) string {
	if !strings.ContainsFunc(s, isInvisible) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isInvisible(r) {
			b.WriteString(escapeText(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Text on one line: each line break, tab and other control character becomes a space.
func Line(s string) string {
	return Text(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s))
}

func escapeText(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

func isInvisible(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r < 0x80:
		return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f
	case r == nonJoiner, r == joiner:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

// HTML returns a page of html/template with the invisible characters of its texts written out. It
// keeps those in tags, because a form must send the value that it got. The template writes < and >
// of strangers as entities, so each < and > is the page's own.
func HTML(page []byte) []byte {
	if !bytes.ContainsFunc(page, isInvisible) {
		return page
	}
	var b bytes.Buffer
	inTag := false
	for len(page) > 0 {
		r, n := utf8.DecodeRune(page)
		switch r {
		case '<':
			inTag = true
		case '>':
			inTag = false
		}
		if !inTag && isInvisible(r) {
			b.WriteString(escapeText(r))
		} else {
			b.Write(page[:n])
		}
		page = page[n:]
	}
	return b.Bytes()
}

// Error returns the text of an error without the prefixes of this module's own errors. The reader
// knows the module, and in errors that wrap others the prefixes would be in the middle.
func Error(err error) string { return Text(strings.ReplaceAll(err.Error(), "dltbatch: ", "")) }

// Sentences joins texts, such as an error and the advice about it, and leaves out empty ones. Each
// gets a full stop, unless it ends with a mark of its own.
func Sentences(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		text = strings.TrimRight(text, " \n")
		if text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
		if !strings.ContainsRune(".!?:", rune(text[len(text)-1])) {
			b.WriteByte('.')
		}
	}
	return b.String()
}
