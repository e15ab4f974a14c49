package main

import (
	"fmt"
	"strings"
	"time"
)

// progressState is the data of the progress line.
type progressState struct {
	elapsed                              time.Duration
	added, confirmed, quarantined, total int
	submissions                          int
}

func (s progressState) line() string {
	const width = 24
	full := width * (s.confirmed + s.quarantined) / max(1, s.total)
	return fmt.Sprintf("%5.1f s  [%s%s] %5d added, %5d confirmed, %2d quarantined; %4d submissions",
		s.elapsed.Seconds(), strings.Repeat("#", full), strings.Repeat(".", width-full), s.added, s.confirmed, s.quarantined, s.submissions)
}
