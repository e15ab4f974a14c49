package demo

import (
	"fmt"
	"io"
	"time"
)

// StatusLine shows one line: on a terminal it is refreshed in place, elsewhere a new line is
// printed from time to time. Out, Live and Every must not change once the Line is in use.
type StatusLine struct {
	Out        io.Writer
	IsTerminal bool          // Out is a terminal
	Interval   time.Duration // time between two lines, if not live

	lastShown time.Time // when the line was last shown
}

// Say prints a line that stays.
func (l *StatusLine) Say(at time.Duration, format string, args ...any) {
	l.clear()
	fmt.Fprintf(l.Out, "%5.1f s  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

// Refresh shows the present state of the line.
func (l *StatusLine) Refresh(now string) {
	switch {
	case l.IsTerminal:
		fmt.Fprint(l.Out, "\r"+now)
	case time.Since(l.lastShown) < l.Interval:
		return
	default:
		fmt.Fprintln(l.Out, now)
	}
	l.lastShown = time.Now()
}

// End leaves the line on the screen, with its last text.
func (l *StatusLine) End(now string) {
	l.clear()
	fmt.Fprintln(l.Out, now)
}

func (l *StatusLine) clear() {
	if l.IsTerminal {
		fmt.Fprint(l.Out, "\r\x1b[K")
	}
}
