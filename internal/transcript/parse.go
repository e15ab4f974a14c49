package transcript

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	// requestType matches a line such as
	//	> POST /batches  content-type="application/octet-stream" [960 bytes]
	requestType = regexp.MustCompile(`^> ([A-Z]+) (\S+)  content-type="([^"]*)" ?(.*)$`)
	// requestLabel matches a line such as
	//	> POST /scabbard/aaaaa-bbbbb/a000/batches   [truncated list]
	requestLabel = regexp.MustCompile(`^> ([A-Z]+) (\S+(?:\.\.\.\[\d+ bytes\])?)(?: +\[(.*)\])?$`)
	// requestDetails matches a line such as
	//	> Host http://127.0.0.1:18085  Authorization: (none)  headers map[A:b]  body 2 bytes = 0a00
	requestDetails = regexp.MustCompile(`^> Host (\S+)  Authorization: (.*?)  headers map\[(.*)\]  body (\d+) bytes(?: = (.*))?$`)
	cutMark        = regexp.MustCompile(`\.\.\.\[\d+ bytes\]$|\.\.\.\(cut\)$`)
	byteCountOnly  = regexp.MustCompile(`^\[(\d+) bytes\]$`)
	// answerLine matches lines such as
	//	< 202 (104ms)  Content-Type: text/plain
	//	< 202 after 3ms  A: b | C: d
	answerLine = regexp.MustCompile(`^< (\d{3}) (?:\(([^)]*)\)|after (\S+))(?:  (.*))?$`)
	failedLine = regexp.MustCompile(`^< error after (\S+): (.*)$`)
	// statusRemark matches a line such as
	//	#   t=   30.1 ms  status of 25fc2a71: PENDING
	statusRemark = regexp.MustCompile(`^#\s+t=\s*([\d.]+) ms\s+status of ([0-9a-zA-Z]+): (\S+)$`)
	// statusArrow matches a line such as
	//	       25ms  9dc729aa100e... -> Pending
	statusArrow = regexp.MustCompile(`^\s+(\S+)  ([0-9a-fA-F]+)\.\.\. -> (\S+)$`)
	// pollLine matches a line such as the following one, with status 200 and the time 0.650854s
	// without a space in between
	//	11:32:27.401 GET /batch_statuses {...}HTTP2000.650854s
	pollLine = regexp.MustCompile(`^\d\d:\d\d:\d\d(?:\.\d+)? (?:([A-Z]+) (\S+) )?(\{.*\})(?:HTTP(\d{3})([\d.]+s))?$`)
	// frameLine matches a line such as
	//	  0.048 raw < {...}
	frameLine    = regexp.MustCompile(`^\s*(\d+\.\d+) raw ([<>]) (.*)$`)
	frameEndLine = regexp.MustCompile(`^\s*(\d+\.\d+) raw read: (.*)$`)
)

// Parse parses a record. A line of no known form is a Note. The error names the first line that
// begins like part of an exchange and is not one.
func Parse(text string) ([]Entry, error) {
	p := parser{lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	for p.lineIndex < len(p.lines) {
		line := p.lines[p.lineIndex]
		var err error
		switch {
		case strings.TrimSpace(line) == "":
			p.lineIndex++
		case strings.HasPrefix(line, "> "):
			err = p.readExchange()
		case strings.HasPrefix(line, "< "):
			err = fmt.Errorf("%q answers nothing", clipLine(line))
		default:
			p.readLine(line)
		}
		if err != nil {
			return nil, fmt.Errorf("transcript: line %d: %w", p.lineIndex+1, err)
		}
	}
	return p.entries, nil
}

type parser struct {
	lines     []string
	lineIndex int // the index of the next line
	entries   []Entry
}

func (p *parser) addEntry(line int, e Entry) {
	e.Line = line + 1
	p.entries = append(p.entries, e)
}

// readLine parses an entry of one line.
func (p *parser) readLine(line string) {
	at := p.lineIndex
	p.lineIndex++
	if m := statusRemark.FindStringSubmatch(line); m != nil {
		if d, err := time.ParseDuration(m[1] + "ms"); err == nil {
			p.addEntry(at, Entry{Seen: &StatusSeen{After: d, ID: m[2], Status: m[3]}})
			return
		}
	}
	if m := statusArrow.FindStringSubmatch(line); m != nil {
		if d, err := time.ParseDuration(m[1]); err == nil {
			p.addEntry(at, Entry{Seen: &StatusSeen{After: d, ID: m[2], Status: m[3]}})
			return
		}
	}
	if m := pollLine.FindStringSubmatch(line); m != nil {
		e := &Exchange{Request: Request{Method: m[1], Target: m[2], Size: -1}}
		e.Answer.Body = m[3]
		e.Answer.Status, _ = strconv.Atoi(m[4])            // 0 if the line has no status
		e.Answer.After, _ = time.ParseDuration("0" + m[5]) // 0 if the line has no time
		p.addEntry(at, Entry{Exchange: e})
		return
	}
	if m := frameLine.FindStringSubmatch(line); m != nil {
		if d, err := time.ParseDuration(m[1] + "s"); err == nil {
			text, cut := strings.CutSuffix(m[3], "...")
			p.addEntry(at, Entry{Frame: &Frame{At: d, Sent: m[2] == ">", Text: text, Cut: cut}})
			return
		}
	}
	if m := frameEndLine.FindStringSubmatch(line); m != nil {
		if d, err := time.ParseDuration(m[1] + "s"); err == nil {
			p.addEntry(at, Entry{Frame: &Frame{At: d, Text: m[2], End: true}})
			return
		}
	}
	p.addEntry(at, Entry{Note: strings.TrimSpace(strings.TrimLeft(line, "#= "))})
}

func (p *parser) readExchange() error {
	e := &Exchange{}
	line := p.lines[p.lineIndex]
	start := p.lineIndex
	if m := requestType.FindStringSubmatch(line); m != nil {
		e.Request = Request{Method: m[1], Target: m[2], Size: len(m[4]), Body: m[4], Header: http.Header{}}
		if m[3] != "" {
			e.Request.Header.Set("Content-Type", m[3])
		}
		if b := byteCountOnly.FindStringSubmatch(m[4]); b != nil {
			size, err := strconv.Atoi(b[1])
			if err != nil {
				return fmt.Errorf("%q is no number of bytes", clipLine(b[1]))
			}
			e.Request.Size, e.Request.Body = size, ""
		}
	} else if m := requestLabel.FindStringSubmatch(line); m != nil {
		e.Label = m[3]
		e.Request = Request{Method: m[1], Size: -1, Header: http.Header{}}
		e.Request.Target, e.Request.Cut = removeCutMark(m[2])
	} else {
		return fmt.Errorf("%q is no request", clipLine(line))
	}
	if n := len(p.entries); e.Label == "" && n > 0 {
		e.Label = p.entries[n-1].Note
	}
	p.lineIndex++
	if p.lineIndex < len(p.lines) {
		if m := requestDetails.FindStringSubmatch(p.lines[p.lineIndex]); m != nil {
			size, err := strconv.Atoi(m[4])
			if err != nil {
				return fmt.Errorf("%q is no number of bytes", clipLine(m[4]))
			}
			e.Request.Header = headerMap(m[3])
			e.Request.Header.Set("Host", m[1])
			e.Request.Authorization, e.Request.Size, e.Request.Body = m[2], size, m[5]
			p.lineIndex++
		}
	}
	if err := p.readAnswer(e); err != nil {
		return err
	}
	p.addEntry(start, Entry{Exchange: e})
	return nil
}

func (p *parser) readAnswer(e *Exchange) error {
	if p.lineIndex >= len(p.lines) {
		return fmt.Errorf("the record ends before the answer")
	}
	line := p.lines[p.lineIndex]
	if m := failedLine.FindStringSubmatch(line); m != nil {
		d, err := time.ParseDuration(m[1])
		if err != nil {
			return err
		}
		e.Answer.After, e.Failure = d, m[2]
		p.lineIndex++
		return nil
	}
	m := answerLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("%q is no answer", clipLine(line))
	}
	var err error
	if e.Answer.After, err = time.ParseDuration(m[2] + m[3]); err != nil {
		return err
	}
	if e.Answer.Status, err = strconv.Atoi(m[1]); err != nil {
		return err
	}
	e.Answer.Header = http.Header{}
	for part := range strings.SplitSeq(m[4], " | ") {
		if key, value, ok := strings.Cut(part, ": "); ok {
			e.Answer.Header.Add(strings.TrimSpace(key), value)
		}
	}
	p.lineIndex++
	if p.lineIndex < len(p.lines) && strings.HasPrefix(p.lines[p.lineIndex], `< "`) {
		if e.Answer.Body, err = strconv.Unquote(p.lines[p.lineIndex][2:]); err != nil {
			return fmt.Errorf("%q: %w", clipLine(p.lines[p.lineIndex]), err)
		}
		e.Answer.Body, e.Answer.Cut = removeCutMark(e.Answer.Body)
		p.lineIndex++
		return nil
	}
	// The body ends at the next blank line.
	first := p.lineIndex
	for p.lineIndex < len(p.lines) && strings.TrimSpace(p.lines[p.lineIndex]) != "" {
		p.lineIndex++
	}
	e.Answer.Body, e.Answer.Cut = removeCutMark(strings.Join(p.lines[first:p.lineIndex], "\n"))
	return nil
}

// removeCutMark removes the mark of a text that the record has only in part. It reports whether
// there was one.
func removeCutMark(s string) (string, bool) {
	at := cutMark.FindStringIndex(s)
	if at == nil {
		return s, false
	}
	return s[:at[0]], true
}

// headerMap reads a map as fmt prints it. Values may contain blanks, and names do not.
func headerMap(s string) http.Header {
	h := http.Header{}
	last := ""
	for word := range strings.FieldsSeq(s) {
		key, value, ok := strings.Cut(word, ":")
		if ok && key != "" {
			last = key
			h.Set(key, value)
		} else if last != "" {
			h.Set(last, h.Get(last)+" "+word)
		}
	}
	return h
}

func clipLine(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
