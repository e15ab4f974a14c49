package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// sightings remembers when rows were first seen at a version, with their claims over. A poll may
// see very many rows, so this is less than an entry. Sightings that nobody asked about for a
// while are forgotten, a generation at a time. It is used under the table's lock.
type sightings struct {
	keep     time.Duration
	now, old map[sighting]time.Time
	since    time.Time // the younger generation began
}

type sighting struct {
	key     batch.Key
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

// at returns when a row was first seen, if it was.
func (s *sightings) at(key sighting) (time.Time, bool) {
	at, ok := s.now[key]
	if !ok {
		at, ok = s.old[key]
	}
	return at, ok
}

// note says since when a row counts as seen.
func (s *sightings) note(key sighting, at time.Time) {
	if s.now == nil {
		s.now, s.since = map[sighting]time.Time{}, at
	}
	s.now[key] = at
}

func (s *sightings) forget(key sighting) {
	delete(s.now, key)
	delete(s.old, key)
}
