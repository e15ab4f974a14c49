package ask

import (
	"slices"
	"sync"
	"time"
)

// agenda holds the times at which rows will be due, in slots. Rows that fall due close together
// share a slot and are asked about together, and the number of slots stays small.
type agenda struct {
	start      time.Time
	slotLength time.Duration // the length of a slot

	mu    sync.Mutex
	slots []int64 // ascending; slot n begins at start + n*slotLength
}

// maxSlots is about the number of slots in the longest time that the agenda notes.
const maxSlots = 256

func newAgenda(longest time.Duration) *agenda {
	return &agenda{start: time.Now(), slotLength: max(minRoundPause, longest/maxSlots)}
}

func (a *agenda) slotTime(slot int64) time.Time {
	return a.start.Add(time.Duration(slot) * a.slotLength)
}

// add notes a time, rounded up to a slot. It reports whether the time is new and earlier than all
// others.
func (a *agenda) add(at time.Time) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slot := int64((at.Sub(a.start) + a.slotLength - 1) / a.slotLength)
	i, known := slices.BinarySearch(a.slots, slot)
	if !known {
		a.slots = slices.Insert(a.slots, i, slot)
	}
	return i == 0 && !known
}

// next returns the earliest noted time, or the zero time if there is none.
func (a *agenda) next() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.slots) == 0 {
		return time.Time{}
	}
	return a.slotTime(a.slots[0])
}

// dropUntil removes the times up to now.
func (a *agenda) dropUntil(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.slots) && !a.slotTime(a.slots[n]).After(now) {
		n++
	}
	a.slots = slices.Delete(a.slots, 0, n)
}
