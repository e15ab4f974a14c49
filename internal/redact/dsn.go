package redact

import (
	"regexp"
	"strconv"
	"strings"
)

// passwordForm matches the parts of texts that may hold a password, in addresses and in data
// source names.
var passwordForm = regexp.MustCompile(`://\S*@|(?i)(password|passfile|sslkey|sslpassword)\s*=\s*('(\\.|[^'\\])*'|"(\\.|[^"\\])*"|\S+)`)

// mayHoldPassword matches every data source name that may hold a password.
var mayHoldPassword = regexp.MustCompile(`(?i)://|password`)

// DSN hides passwords in a text that may quote data source names or addresses.
func DSN(text string) string { return passwordForm.ReplaceAllString(text, hidden) }

// HideArgument hides an argument that may be a data source name in a text that quotes a command
// line, also if the text quotes only a part of it. Users may type a data source name in the wrong
// place, with spaces and quotes that DSN does not expect. written are the forms in which the text
// may have the argument; each counts in quotes, too.
func HideArgument(text string, written ...string) string {
	forms := written
	for _, form := range written {
		forms = append(forms, inQuotes(form))
	}
	var b strings.Builder
	for from := 0; ; {
		mark := mayHoldPassword.FindStringIndex(text[from:])
		if mark == nil {
			return b.String() + text[from:]
		}
		begin, end := from+mark[0], from+mark[1]
		most := 0
		for _, form := range forms {
			for _, own := range mayHoldPassword.FindAllStringIndex(form, -1) {
				before, behind := sharedEnd(text[from:begin], form[:own[0]]), sharedBegin(text[begin:], form[own[0]:])
				if n := before + behind; behind >= own[1]-own[0] && n > most {
					most, mark[0], mark[1] = n, begin-before, begin+behind
				}
			}
		}
		if most == 0 { // the text quotes another argument, or none
			b.WriteString(text[from:end])
			from = end
			continue
		}
		b.WriteString(text[from:mark[0]] + hidden)
		from = mark[1]
	}
}

func inQuotes(s string) string {
	s = strconv.Quote(s)
	return s[1 : len(s)-1]
}

// sharedBegin returns how many bytes two texts have in common at their beginning, sharedEnd at
// their end.
func sharedBegin(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func sharedEnd(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
