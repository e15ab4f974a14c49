package sqlite

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// simulatedReads simulates reads that take took each, while something is written at these times.
// It returns when the reads began.
func simulatedReads(took time.Duration, writes ...time.Duration) (looks []time.Duration) {
	begin := time.Unix(0, 0)
	var p readPace
	end := writes[len(writes)-1] + 3*time.Second
	for now := writes[0]; now < end; now += 100 * time.Microsecond {
		for len(writes) > 0 && writes[0] <= now {
			p.noteWrite(begin.Add(now))
			writes = writes[1:]
		}
		if p.isDue(begin.Add(now)) {
			looks = append(looks, now)
			p.noteRead(begin.Add(now), begin.Add(now+took))
			now += took
		}
	}
	return looks
}

// One write leads to reads with growing pauses, which end.
func TestPaceOfOneWrite(t *testing.T) {
	looks := simulatedReads(0, time.Second)
	assert.Equal(t, time.Second+firstPause, looks[0])
	assert.InDelta(t, 16, len(looks), 2)
	for i, at := range looks[1:] {
		since := at - time.Second
		assert.LessOrEqual(t, at-looks[i], since/2+firstPause, "a commit that took %s is found late", since)
	}
	assert.Greater(t, looks[len(looks)-1], 1800*time.Millisecond, "for a disk that takes long")
}

// A write is read soon, however long the pauses after earlier writes have become. So are the few
// commits of a batch that is delivered.
func TestPaceOfWritesOneByOne(t *testing.T) {
	const took = 200 * time.Microsecond
	for gap := 2 * time.Millisecond; gap < 2*time.Second; gap += 7 * time.Millisecond {
		writes := []time.Duration{time.Second, time.Second + gap, time.Second + 2*gap}
		looks := simulatedReads(took, writes...)
		for _, write := range writes {
			i := slices.IndexFunc(looks, func(at time.Duration) bool { return at > write })
			assert.LessOrEqual(t, looks[i]-write, firstPause+took, gap)
			assert.LessOrEqual(t, looks[i+1]-write, 3*firstPause+2*took, gap)
		}
	}
}

// During frequent writes a read begins in each busyPause, or in readTimeShare times the duration
// of a read.
func TestPaceOfManyWrites(t *testing.T) {
	var writes []time.Duration
	for at := time.Duration(0); at < 2*time.Minute; at += 300 * time.Microsecond {
		writes = append(writes, at)
	}
	assert.InDelta(t, 2*time.Minute/busyPause, len(simulatedReads(0, writes...)), 0.05*float64(2*time.Minute/busyPause))
	slow := 20 * time.Millisecond
	assert.InDelta(t, 2*time.Minute/(readTimeShare*slow), len(simulatedReads(slow, writes...)), 20)
}
