package main

import (
	"fmt"
	"strings"
	"time"
)

// state is the data of the line.
type state struct {
	elapsed                    time.Duration
	added, paid, total, signed int
}

func (s state) line() string {
	const width = 40
	full := width * s.paid / max(1, s.total)
	return fmt.Sprintf("%5.1f s  [%s%s] %4d of %d invoices paid, %4d payments signed",
		s.elapsed.Seconds(), strings.Repeat("#", full), strings.Repeat(".", width-full), s.paid, s.total, s.signed)
}
