package main

import (
	"fmt"
	"os"
	"strings"
)

// survivors are changes that no test needs to notice, by the first three lines of their entries.
// These lines contain no line number of the code, so that edits elsewhere do not change them.
type survivors map[string]*survivor

type survivor struct {
	line     int  // in survivors.txt
	isInCode bool // true if the code has this place
}

// entry returns the text of a change in survivors.txt, without its reason.
func (c change) entry(dir string) string {
	nth := ""
	if c.occurrence > 1 {
		nth = fmt.Sprintf(" #%d", c.occurrence)
	}
	return fmt.Sprintf("%s %s %s%s\n- %s\n+ %s", dir, c.function, c.operator, nth, oneLine(c.oldText), oneLine(c.newText))
}

// oneLine returns a text on one line, with single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// readSurvivors reads the entries, which are separated by empty lines. The reason follows an
// entry.
func readSurvivors(path string) (survivors, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := survivors{}
	line := 1
	for block := range strings.SplitSeq(string(data), "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		switch {
		case strings.HasPrefix(lines[0], "#") || lines[0] == "":
		case len(lines) < 4 || !strings.HasPrefix(lines[1], "-") || !strings.HasPrefix(lines[2], "+"):
			return nil, fmt.Errorf("%s, line %d: want package, function and operator, the old text behind -, the new one behind +, and a reason", path, line)
		default:
			all[joinTrimmed(lines[:3])] = &survivor{line: line}
		}
		line += 2 + strings.Count(block, "\n")
	}
	return all, nil
}

func joinTrimmed(lines []string) string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimRight(l, " "))
	}
	return strings.Join(out, "\n")
}

// leaveOut returns the changes of a package that are not accepted survivors.
func (s survivors) leaveOut(dir string, all []change) (rest []change) {
	for _, c := range all {
		e, ok := s[joinTrimmed(strings.Split(c.entry(dir), "\n"))]
		if ok {
			e.isInCode = true
		} else {
			rest = append(rest, c)
		}
	}
	return rest
}

// staleEntries returns an error for each entry of the folders whose place is not in the code any
// more.
func (s survivors) staleEntries(of func(dir string) bool) (bad []error) {
	for key, e := range s {
		if dir, _, _ := strings.Cut(key, " "); of(dir) && !e.isInCode {
			bad = append(bad, fmt.Errorf("survivors.txt, line %d: the code has no such place: remove the entry", e.line))
		}
	}
	return bad
}
