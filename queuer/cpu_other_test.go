//go:build !linux

package queuer_test

import "time"

var began = time.Now()

// threadTime is the time here: how much of it a thread had is not known.
func threadTime() time.Duration { return time.Since(began) }
