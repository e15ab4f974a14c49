package demo

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// most is the number of columns of a line that is not written to a terminal.
const most = 100

// columns breaks long lines at spaces, and writes whole lines only. It may be used concurrently.
type columns struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the beginning of a line whose end was not written yet
}

// Write implements io.Writer.
func (c *columns) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, p...)
	for {
		line, rest, ended := bytes.Cut(c.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		text := strings.Join(fold(string(line)), "\n") + "\n"
		c.rest = rest
		if _, err := io.WriteString(c.w, text); err != nil {
			return 0, err
		}
	}
}

// end writes the last line if it does not end with a line feed.
func (c *columns) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.w.Write(c.rest)
	c.rest = nil
}

// fold breaks a line at spaces. The lines after the first are indented by two more columns.
func fold(line string) (lines []string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))] + "  "
	for utf8.RuneCountInString(line) > most {
		at := strings.LastIndex(string([]rune(line)[:most+1]), " ")
		if at <= len(indent) {
			break // a word is longer than a line
		}
		lines = append(lines, strings.TrimRight(line[:at], " "))
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return append(lines, line)
}
