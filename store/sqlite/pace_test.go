package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// paced plays looks that take a time each, while something is written at these moments.
func paced(took time.Duration, writes ...time.Duration) (looks []time.Duration) {
	begin := time.Unix(0, 0)
	var p pace
	end := writes[len(writes)-1] + 3*time.Second
	for now := writes[0]; now < end; now += 100 * time.Microsecond {
		for len(writes) > 0 && writes[0] <= now {
			p.wrote(begin.Add(now))
			writes = writes[1:]
		}
		if p.now(begin.Add(now)) {
			looks = append(looks, now)
			p.looked(begin.Add(now), begin.Add(now+took))
			now += took
		}
	}
	return looks
}

// One write leads to looks that come more and more rarely, and end.
func TestPaceOfOneWrite(t *testing.T) {
	looks := paced(0, time.Second)
	assert.Equal(t, time.Second+firstPause, looks[0])
	assert.InDelta(t, 16, len(looks), 2)
	for i, at := range looks[1:] {
		since := at - time.Second
		assert.LessOrEqual(t, at-looks[i], since/2+firstPause, "a commit that took %s is found late", since)
	}
	assert.Greater(t, looks[len(looks)-1], 1800*time.Millisecond, "for a disk that takes long")
}

// A write is looked at soon, however long a pause the one before it has come to.
func TestPaceOfWritesOneByOne(t *testing.T) {
	for gap := 20 * time.Millisecond; gap < 2*time.Second; gap += 7 * time.Millisecond {
		var first []time.Duration
		looks := paced(200*time.Microsecond, time.Second, time.Second+gap)
		for _, at := range looks {
			if since := at - time.Second - gap; since >= 0 {
				first = append(first, since)
			}
		}
		assert.LessOrEqual(t, first[0], busyPause, gap)
		assert.LessOrEqual(t, first[1], 2*busyPause, gap)
	}
}

// While more is written all the time there is a look in each busyPause, or in lookShare times the
// time that a look takes.
func TestPaceOfManyWrites(t *testing.T) {
	var writes []time.Duration
	for at := time.Duration(0); at < 2*time.Minute; at += 300 * time.Microsecond {
		writes = append(writes, at)
	}
	assert.InDelta(t, 2*time.Minute/busyPause, len(paced(0, writes...)), 0.05*float64(2*time.Minute/busyPause))
	slow := 20 * time.Millisecond
	assert.InDelta(t, 2*time.Minute/((1+lookShare)*slow), len(paced(slow, writes...)), 20)
}
