//go:build !linux

package queuer_test

import "time"

var began = time.Now()

// threadTime returns wall time on this platform, which does not give a thread's CPU time.
func threadTime() time.Duration { return time.Since(began) }
