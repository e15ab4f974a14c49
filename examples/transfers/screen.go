package main

import (
	"fmt"
	"strings"
	"time"
)

// state is the data of the progress line.
type state struct {
	elapsed                         time.Duration
	added, confirmed, others, total int
	submissions                     int
}

func (s state) line() string {
	const width = 24
	full := width * (s.confirmed + s.others) / max(1, s.total)
	return fmt.Sprintf("%5.1f s  [%s%s] %5d added, %5d confirmed, %2d quarantined; %4d submissions",
		s.elapsed.Seconds(), strings.Repeat("#", full), strings.Repeat(".", width-full), s.added, s.confirmed, s.others, s.submissions)
}
