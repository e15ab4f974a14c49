package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/internal/legible"
)

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// print writes an answer: as JSON, or as text for people.
func (a *app) print(v any, people func(p *page)) error {
	if a.wantsJSON {
		return encode(a.stdout, v)
	}
	p := &page{colour: a.hasColour, width: a.width}
	people(p)
	_, err := a.stdout.Write(p.Bytes())
	return err
}

// page is text for people.
type page struct {
	bytes.Buffer
	colour bool
	width  int // columns of the terminal; 0 if there is none, and everything is written whole
}

// terminalWidth is the smallest width of a terminal for which tables are made, in columns. shortID
// is how many digits of a long id are shown, which are enough to name one batch.
const (
	terminalWidth = 100
	shortID       = 12
)

// id returns an id as it is shown. On a terminal this is the beginning of an id of many random
// digits; every command accepts it in place of the whole id.
func (p *page) id(id string) string {
	if digits := strings.TrimPrefix(id, "0x"); p.width > 0 && longID.FindString(digits) == digits && digits != "" {
		return id[:len(id)-len(digits)+shortID]
	}
	return id
}

// longID matches an id of many random digits.
var longID = regexp.MustCompile(`\b[0-9a-fA-F]{40,}\b|\b0x[0-9a-fA-F]{40,}\b`)

// ids returns a sentence with its ids as they are shown. It is not for text that contains a
// command, because with --yes a command takes whole ids only.
func (p *page) ids(sentence string) string { return longID.ReplaceAllStringFunc(sentence, p.id) }

// line writes a line. Text from others in args is made safe by clean.
func (p *page) line(format string, args ...any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = legible.Line(v)
		case error:
			args[i] = legible.Line(v.Error())
		}
	}
	fmt.Fprintf(p, format+"\n", args...)
}

// styled writes a line in a style.
func (p *page) styled(style, format string, args ...any) {
	if p.colour && style != stylePlain {
		p.WriteString(style)
		defer func() {
			p.Truncate(p.Len() - 1)
			p.WriteString(styleReset + "\n")
		}()
	}
	p.line(format, args...)
}

// Styles of a table's rows on a terminal.
const (
	stylePlain = ""
	styleBold  = "\x1b[1m"
	styleRed   = "\x1b[31m"
	styleReset = "\x1b[0m"
)

// table is lines of cells.
type table struct {
	page       *page
	isFactList bool // names and values of one thing, which are never cut
	styles     []string
	text       bytes.Buffer
	writer     *tabwriter.Writer
}

func (p *page) table(heads ...string) *table {
	t := &table{page: p, isFactList: len(heads) == 2}
	t.writer = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.row(styleBold, toAny(heads)...)
	return t
}

func toAny(texts []string) []any {
	all := make([]any, len(texts))
	for i, s := range texts {
		all[i] = s
	}
	return all
}

func (t *table) row(style string, cells ...any) {
	t.styles = append(t.styles, style)
	for i, c := range cells {
		if i > 0 {
			t.write("\t")
		}
		text := legible.Line(fmt.Sprint(c))
		switch c.(type) {
		case batch.ID, order.ID:
			text = t.page.id(text)
		}
		if text == "" {
			text = "-"
		}
		t.write(text)
	}
	t.write("\n")
}

// write writes to memory, which does not fail.
func (t *table) write(s string) { _, _ = t.writer.Write([]byte(s)) }

// finish writes the table to the page.
func (t *table) finish() {
	_ = t.writer.Flush() // a write to memory does not fail
	for i, line := range strings.Split(strings.TrimSuffix(t.text.String(), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if runes := []rune(line); t.page.width > 0 && !t.isFactList && len(runes) > t.page.width {
			line = string(runes[:t.page.width-1]) + "…"
		}
		if style := t.styles[i]; t.page.colour && style != stylePlain {
			line = style + line + styleReset
		}
		t.page.WriteString(line + "\n")
	}
}

// timeText shows a time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// ageText shows a duration in at most two units, and a negative one as 0.
func ageText(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// countText shows a number; more is true if the real number may be larger.
func countText(n int, more bool) string {
	if more {
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}

// laneText shows the name of a service. "" is a valid name.
func laneText(s batch.ServiceID) string {
	if s == "" {
		return `""`
	}
	return string(s)
}

// quoteName quotes a word for a shell.
func quoteName(s string) string { return incident.Quote(s) }

// errorText shows an error beside a state that already says that the batch was rejected or is
// invalid.
func errorText(e *batch.SubmissionError) string {
	switch {
	case e == nil:
		return ""
	case (e.Kind == batch.KindRejected || e.Kind == batch.KindInvalid) && e.Message != "":
		return e.Message
	}
	return e.Error()
}
