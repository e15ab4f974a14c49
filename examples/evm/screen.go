package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen shows one line: refreshed in place on a terminal, otherwise a new one each two seconds.
type screen struct {
	out  io.Writer
	live bool
	last time.Time // when it was shown
}

// state is the data of the line.
type state struct {
	elapsed                    time.Duration
	added, paid, total, signed int
}

func (s state) line() string {
	const width = 40
	full := width * s.paid / max(1, s.total)
	return fmt.Sprintf("%5.1f s  [%s%s] %4d of %d invoices paid, %4d transactions signed",
		s.elapsed.Seconds(), strings.Repeat("#", full), strings.Repeat(".", width-full), s.paid, s.total, s.signed)
}

// say prints a lasting line.
func (s *screen) say(at time.Duration, format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.out, "%5.1f s  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

func (s *screen) refresh(now state) {
	switch {
	case s.live:
		fmt.Fprint(s.out, "\r"+now.line())
	case time.Since(s.last) < 2*time.Second:
		return
	default:
		fmt.Fprintln(s.out, now.line())
	}
	s.last = time.Now()
}

// end leaves the line on the screen.
func (s *screen) end(now state) {
	s.clear()
	fmt.Fprintln(s.out, now.line())
}

func (s *screen) clear() {
	if s.live {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}
