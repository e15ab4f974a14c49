package demo

import (
	"fmt"
	"io"
	"time"
)

// Line shows one line: on a terminal it is refreshed in place, elsewhere a new line is printed
// from time to time. Out, Live and Every must not change once the Line is in use.
type Line struct {
	Out   io.Writer
	Live  bool          // Out is a terminal
	Every time.Duration // time between two lines, if not live

	last time.Time // when the line was last shown
}

// Say prints a line that stays.
func (l *Line) Say(at time.Duration, format string, args ...any) {
	l.clear()
	fmt.Fprintf(l.Out, "%5.1f s  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

// Refresh shows the present state of the line.
func (l *Line) Refresh(now string) {
	switch {
	case l.Live:
		fmt.Fprint(l.Out, "\r"+now)
	case time.Since(l.last) < l.Every:
		return
	default:
		fmt.Fprintln(l.Out, now)
	}
	l.last = time.Now()
}

// End leaves the line on the screen.
func (l *Line) End(now string) {
	l.clear()
	fmt.Fprintln(l.Out, now)
}

func (l *Line) clear() {
	if l.Live {
		fmt.Fprint(l.Out, "\r\x1b[K")
	}
}
