package demo

import (
	"fmt"
	"io"
	"time"
)

// Line shows one line: refreshed in place on a terminal, otherwise a new one now and then. Out,
// Live and Every do not change once it is in use.
type Line struct {
	Out   io.Writer
	Live  bool          // Out is a terminal
	Every time.Duration // between two lines elsewhere

	last time.Time // when it was shown
}

// Say prints a lasting line.
func (l *Line) Say(at time.Duration, format string, args ...any) {
	l.clear()
	fmt.Fprintf(l.Out, "%5.1f s  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

// Refresh shows the line as it is now.
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
