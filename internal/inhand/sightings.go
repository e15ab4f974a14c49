package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// sightings remembers when rows were first seen at a version, with their claims expired. A poll
// may see very many rows, so a sighting is smaller than an entry. Sightings that no question used
// for a while are forgotten, one generation at a time. The table's lock guards it.
type sightings struct {
	keepFor                        time.Duration
	youngGeneration, oldGeneration map[rowVersion]time.Time
	youngSince                     time.Time // when the younger generation began
}

type rowVersion struct {
	key     batch.Key
	version int64
}

func (s *sightings) firstSeen(key rowVersion, now time.Time) time.Time {
	if s.youngGeneration == nil || now.Sub(s.youngSince) > s.keepFor {
		s.youngGeneration, s.oldGeneration, s.youngSince = map[rowVersion]time.Time{}, s.youngGeneration, now
	}
	at, ok := s.youngGeneration[key]
	if !ok {
		if at, ok = s.oldGeneration[key]; !ok {
			at = now
		}
		s.youngGeneration[key] = at
	}
	return at
}

// firstSight returns when a row was first seen. ok is false if it was not.
func (s *sightings) firstSight(key rowVersion) (time.Time, bool) {
	at, ok := s.youngGeneration[key]
	if !ok {
		at, ok = s.oldGeneration[key]
	}
	return at, ok
}

// note records when a row was first seen.
func (s *sightings) note(key rowVersion, at time.Time) {
	if s.youngGeneration == nil {
		s.youngGeneration, s.youngSince = map[rowVersion]time.Time{}, at
	}
	s.youngGeneration[key] = at
}

func (s *sightings) forget(key rowVersion) {
	delete(s.youngGeneration, key)
	delete(s.oldGeneration, key)
}
