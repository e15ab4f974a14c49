package main

import (
	"fmt"
	"strings"
	"time"
)

// progressState is the data of the progress line.
type progressState struct {
	elapsed                  time.Duration
	added, paid, total, made int
}

func (s progressState) line() string {
	const bar = 40
	full := bar * s.paid / max(1, s.total)
	return fmt.Sprintf("%5.1f s  [%s%s] %4d of %d invoices paid, %4d payments made",
		s.elapsed.Seconds(), strings.Repeat("#", full), strings.Repeat(".", bar-full), s.paid, s.total, s.made)
}
