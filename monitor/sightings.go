package monitor

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// sightings remembers when claims were first seen to be over. It forgets sightings that nobody
// asked about for a while, a generation at a time.
type sightings struct {
	keep     time.Duration
	now, old map[sighting]time.Time
	since    time.Time // the younger generation began
}

type sighting struct {
	id      batch.ID
	version int64
}

func (s *sightings) first(key sighting, now time.Time) time.Time {
	if s.now == nil || now.Sub(s.since) > s.keep {
		s.now, s.old, s.since = map[sighting]time.Time{}, s.now, now
	}
	at, ok := s.now[key]
	if !ok {
		if at, ok = s.old[key]; !ok {
			at = now
		}
		s.now[key] = at
	}
	return at
}
