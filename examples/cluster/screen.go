package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen shows the table: refreshed in place on a terminal, otherwise a line a second.
type screen struct {
	out   io.Writer
	live  bool
	lines int       // of the table on the screen
	last  time.Time // when it was shown
}

// state is the data of the table.
type state struct {
	elapsed                 time.Duration
	added, committed, total int
	workers                 []tally
}

func (s state) rate() float64 { return float64(s.committed) / max(s.elapsed.Seconds(), 0.001) }

func word(alive bool) string {
	if alive {
		return "alive"
	}
	return "KILLED"
}

func (s state) table() string {
	var b strings.Builder
	var sum tally
	fmt.Fprintf(&b, "  %-8s %8s  %-7s %9s %9s %9s %9s\n", "worker", "pid", "state", "claimed", "accepted", "committed", "takeovers")
	for i, w := range s.workers {
		fmt.Fprintf(&b, "  %-8d %8d  %-7s %9d %9d %9d %9d\n", i+1, w.pid, word(w.alive), w.claimed, w.accepted, w.committed, w.takeovers)
		sum.claimed, sum.accepted = sum.claimed+w.claimed, sum.accepted+w.accepted
		sum.committed, sum.takeovers = sum.committed+w.committed, sum.takeovers+w.takeovers
	}
	fmt.Fprintf(&b, "  %-8s %8s  %-7s %9d %9d %9d %9d\n", "total", "", "", sum.claimed, sum.accepted, sum.committed, sum.takeovers)
	fmt.Fprintf(&b, "  %5.1f s: %d of %d added; the node has committed %d, %.0f/s\n",
		s.elapsed.Seconds(), s.added, s.total, s.committed, s.rate())
	return b.String()
}

func (s state) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1f s  added %5d  committed %5d  %4.0f/s", s.elapsed.Seconds(), s.added, s.committed, s.rate())
	for i, w := range s.workers {
		fmt.Fprintf(&b, " | %d: pid %d %s %d/%d/%d/%d", i+1, w.pid, word(w.alive), w.claimed, w.accepted, w.committed, w.takeovers)
	}
	return b.String() + "\n"
}

// say prints a lasting line above the table.
func (s *screen) say(at time.Duration, format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.out, "%5.1f s  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

func (s *screen) refresh(now state) {
	switch {
	case s.live && time.Since(s.last) >= 100*time.Millisecond:
		s.clear()
		fmt.Fprint(s.out, now.table())
		s.lines = strings.Count(now.table(), "\n")
	case !s.live && time.Since(s.last) >= time.Second:
		if s.last.IsZero() {
			fmt.Fprintln(s.out, "         of each worker: claimed/accepted/committed/takeovers")
		}
		fmt.Fprint(s.out, now.line())
	default:
		return
	}
	s.last = time.Now()
}

// end leaves the table on the screen.
func (s *screen) end(now state) {
	s.clear()
	fmt.Fprint(s.out, "\n"+now.table())
}

func (s *screen) clear() {
	if s.lines > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\r\x1b[J", s.lines) // up, and nothing below
		s.lines = 0
	}
}
