package demo

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxColumns is the number of columns of a line that is not written to a terminal.
const maxColumns = 100

// columnWriter breaks long lines at spaces, and writes whole lines only. It may be used
// concurrently.
type columnWriter struct {
	mu             sync.Mutex
	out            io.Writer
	unfinishedLine []byte // the beginning of a line whose end was not written yet
}

// Write implements io.Writer.
func (c *columnWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unfinishedLine = append(c.unfinishedLine, p...)
	for {
		line, rest, ended := bytes.Cut(c.unfinishedLine, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		text := strings.Join(divideLine(string(line)), "\n") + "\n"
		c.unfinishedLine = rest
		if _, err := io.WriteString(c.out, text); err != nil {
			return 0, err
		}
	}
}

// writeRest writes the last line if it does not end with a line feed.
func (c *columnWriter) writeRest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(c.unfinishedLine)
	c.unfinishedLine = nil
}

// divideLine breaks a line at spaces. The lines after the first are indented by two more columns.
func divideLine(line string) (lines []string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))] + "  "
	for utf8.RuneCountInString(line) > maxColumns {
		at := strings.LastIndex(string([]rune(line)[:maxColumns+1]), " ")
		if at <= len(indent) {
			break // a word is longer than a line
		}
		lines = append(lines, strings.TrimRight(line[:at], " "))
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return append(lines, line)
}
