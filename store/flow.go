package store

import (
	"cmp"
	"slices"
	"time"
)

// MaxFlows is the largest number of stretches in [Instance].Flows, and of counts in
// [Totals].Earlier. At 15 s for each these cover five minutes.
const MaxFlows = 20

// Flow counts the batches that one instance saw in a stretch of time
// (docs/design.md#counting-what-is-open). An operator's act in another process is in no Flow.
type Flow struct {
	// Ago is the time from the end of the stretch to [Instance].Seen. Took is the length of the
	// stretch.
	Ago  time.Duration `json:"ago"`
	Took time.Duration `json:"took"`
	// Final is how many batches became final.
	Final int `json:"final"`
	// Queue are the times from Add to the first attempt. Flight are the times of POSTs up to their
	// answers; the batches of one request share one. Finality are the times from the last POST to
	// the final outcome.
	Queue    Times `json:"queue,omitzero"`
	Flight   Times `json:"flight,omitzero"`
	Finality Times `json:"finality,omitzero"`
}

// Times sums durations up.
type Times struct {
	N   int           `json:"n"`
	Sum time.Duration `json:"sum"`
	Max time.Duration `json:"max"`
}

// Plus returns the times with one more duration.
func (t Times) Plus(d time.Duration) Times { return t.With(Times{N: 1, Sum: d, Max: d}) }

// With returns the times of t and o together.
func (t Times) With(o Times) Times {
	return Times{N: t.N + o.N, Sum: t.Sum + o.Sum, Max: max(t.Max, o.Max)}
}

// Mean returns the mean duration; 0 for no durations.
func (t Times) Mean() time.Duration {
	if t.N == 0 {
		return 0
	}
	return t.Sum / time.Duration(t.N)
}

// OpenAt is how many batches were open at a moment.
type OpenAt struct {
	At   time.Time `json:"at"` // on the database's clock
	Open int       `json:"open"`
}

// OpenAt returns the sum of Open, and its moment.
func (c Totals) OpenAt() OpenAt {
	o := OpenAt{At: c.At}
	for _, n := range c.Open {
		o.Open += n
	}
	return o
}

// After returns the counts with those before them, in Earlier: the last [MaxFlows], and with
// RisingSince. Counts from before the clock stepped back are left out.
func (c Totals) After(before Totals) Totals {
	all := slices.Clone(before.Earlier)
	if !before.At.IsZero() {
		all = append(all, before.OpenAt())
	}
	all = slices.DeleteFunc(all, func(o OpenAt) bool { return !o.At.Before(c.At) })
	c.Earlier = all[max(0, len(all)-MaxFlows):]
	if n := len(all); n > 0 && all[n-1].At.Equal(before.At) && c.OpenAt().Open > all[n-1].Open {
		c.RisingSince = cmp.Or(before.RisingSince, before.At)
	}
	return c
}
