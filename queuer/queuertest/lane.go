package queuertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// randomPrefix returns a short address of few digits, so that many are equal or prefixes of one
// another.
func randomPrefix(r *rand.Rand) string {
	b := make([]byte, 2*r.IntN(4))
	for i := range b {
		b[i] = "01f"[r.IntN(3)]
	}
	return string(b)
}

// randomFootprint returns a footprint that is mostly narrow, sometimes wide, and sometimes
// declares nothing.
func randomFootprint(r *rand.Rand) (f batch.Footprint) {
	switch k := r.IntN(20); {
	case k == 0:
		return f
	case k < 12: // one of a few addresses, of which none is a prefix of another
		return batch.Footprint{Writes: []string{fmt.Sprintf("aa%02x", r.IntN(12))}}
	}
	for range r.IntN(3) {
		f.Reads = append(f.Reads, randomPrefix(r))
	}
	for range r.IntN(3) {
		f.Writes = append(f.Writes, randomPrefix(r))
	}
	return f
}

// randomLane returns a lane as a store shows it: attempted batches, then waiting ones.
func (s suite) randomLane(r *rand.Rand, window int) batch.Lane {
	attempted, waiting := r.IntN(6), r.IntN(min(window, 12)+1)
	l := batch.Lane{Service: "s", Batches: make([]batch.LaneBatch, attempted+waiting), KeepsOrder: s.reliesOnOrder && r.IntN(2) == 0}
	under := []batch.State{batch.Submitting, batch.Pending, batch.Valid, batch.Invalid, batch.Delayed, batch.Unknown, batch.Queued}
	for i := range l.Batches {
		w := batch.LaneBatch{ID: batch.ID(fmt.Sprint(i)), State: batch.Queued, Ready: true, Footprint: randomFootprint(r)}
		if i < attempted {
			w.State, w.Attempt = under[r.IntN(len(under))], 1+r.IntN(3)
			w.Ready = w.State.Claimable() && r.IntN(3) > 0
			w.Failed = w.State == batch.Delayed && r.IntN(2) == 0
		}
		l.Batches[i] = w
	}
	return l
}

// cloneLane returns a lane that shares no memory with l.
func cloneLane(l batch.Lane) batch.Lane {
	l.Batches = slices.Clone(l.Batches)
	for i := range l.Batches {
		f := &l.Batches[i].Footprint
		f.Reads, f.Writes = slices.Clone(f.Reads), slices.Clone(f.Writes)
	}
	return l
}

// describe returns a lane and an answer as text for a failure.
func describe(l batch.Lane, runs []batch.Run) string {
	var s strings.Builder
	fmt.Fprintf(&s, "lane %q, keeps order %t, answer %v\n", l.Service, l.KeepsOrder, runs)
	for p, b := range l.Batches {
		fmt.Fprintf(&s, "%3d %s %s ready=%t failed=%t reads=%q writes=%q\n", p, b.ID, b.State, b.Ready, b.Failed, b.Footprint.Reads, b.Footprint.Writes)
	}
	return s.String()
}
