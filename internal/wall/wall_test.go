package wall_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/wall"
	"github.com/dltbatch/dltbatch/internal/wall/walltest"
)

func TestUntil(t *testing.T) {
	at := time.Now().Add(time.Hour)
	for slept, want := range map[time.Duration]time.Duration{
		0: time.Hour,
		// The monotonic clock stood still: the wall clock counts.
		2 * time.Hour: -time.Hour,
		// The wall clock was set back: the monotonic one counts.
		-2 * time.Hour: time.Hour,
	} {
		assert.InDelta(t, want, wall.Until(walltest.Slept(t, at, slept)), float64(time.Minute), "%s", slept)
	}
}
