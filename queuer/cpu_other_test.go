//go:build !linux

package queuer_test

import "time"

var began = time.Now()

// threadTime is wall time here: the CPU time of a thread is not known.
func threadTime() time.Duration { return time.Since(began) }
