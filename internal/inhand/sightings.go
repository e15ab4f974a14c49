package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// sightings remembers when rows were first seen at a version, with their claims expired. A poll
// may see very many rows, so a sighting is smaller than an entry. Sightings that no question used
// for a while are forgotten, one generation at a time. The table's lock guards it.
type sightings struct {
	keepFor    time.Duration
	young, old map[rowVersion]time.Time
	youngSince time.Time // when the younger generation began
}

type rowVersion struct {
	key     batch.Key
	version int64
}

func (s *sightings) firstSeen(key rowVersion, now time.Time) time.Time {
	if s.young == nil || now.Sub(s.youngSince) > s.keepFor {
		s.young, s.old, s.youngSince = map[rowVersion]time.Time{}, s.young, now
	}
	at, ok := s.young[key]
	if !ok {
		if at, ok = s.old[key]; !ok {
			at = now
		}
		s.young[key] = at
	}
	return at
}

// seenAt returns when a row was first seen. ok is false if it was not.
func (s *sightings) seenAt(key rowVersion) (time.Time, bool) {
	at, ok := s.young[key]
	if !ok {
		at, ok = s.old[key]
	}
	return at, ok
}

// note records when a row was first seen.
func (s *sightings) note(key rowVersion, at time.Time) {
	if s.young == nil {
		s.young, s.youngSince = map[rowVersion]time.Time{}, at
	}
	s.young[key] = at
}

func (s *sightings) forget(key rowVersion) {
	delete(s.young, key)
	delete(s.old, key)
}
