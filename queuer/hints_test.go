package queuer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

func TestHintsKeepTheirOrderAndAreThereOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	h := newHints()
	for _, s := range []batch.ServiceID{"c", "a", "c", "b", "a", ""} {
		h.add(s, now, now)
	}
	at, ok := h.next(now)
	assert.True(t, ok)
	assert.True(t, at.IsZero(), "at once")
	assert.Equal(t, []batch.ServiceID{"c", "a"}, h.take(2, now))
	h.add("c", now, now) // taken, and named again: behind the others
	assert.Equal(t, []batch.ServiceID{"b", "", "c"}, h.take(10, now))
	assert.Empty(t, h.take(10, now))
	_, ok = h.next(now)
	assert.False(t, ok)
}

// A lane that a scan found stands behind all named lanes, and is there once.
func TestFoundLanesStandBehindNamedOnes(t *testing.T) {
	now := time.Unix(1000, 0)
	h := newHints()
	h.add("later", now.Add(time.Hour), now)
	h.add("named", now, now)
	for _, s := range []batch.ServiceID{"a", "later", "b", "named", "c", "a"} {
		h.find(s)
	}
	h.add("b", now.Add(time.Hour), now)
	h.add("c", now, now)
	assert.Equal(t, []batch.ServiceID{"named", "c"}, h.take(9, now))
	at, ok := h.next(now)
	assert.True(t, ok && at.IsZero())
	assert.Equal(t, []batch.ServiceID{"a"}, h.takeFound(1))
	h.find("c")
	assert.Equal(t, []batch.ServiceID{"later", "b", "c"}, h.takeFound(9))
	assert.Empty(t, h.takeFound(9))
	_, ok = h.next(now.Add(2 * time.Hour))
	assert.False(t, ok)
	assert.Empty(t, h.due)
	h.find("a")
	h.add("a", now, now)
	assert.Equal(t, []batch.ServiceID{"a"}, h.take(9, now))
	_, ok = h.next(now)
	assert.False(t, ok)
	assert.Zero(t, h.finds)
}

func TestLaterHintsBecomeReadyInTime(t *testing.T) {
	now := time.Unix(1000, 0)
	h := newHints()
	h.add("3", now.Add(3*time.Second), now)
	h.add("1", now.Add(time.Second), now)
	h.add("2", now.Add(2*time.Second), now)
	at, ok := h.next(now)
	assert.True(t, ok)
	assert.Equal(t, now.Add(time.Second), at)
	assert.Empty(t, h.take(10, now.Add(time.Second-1)))
	assert.Equal(t, []batch.ServiceID{"1"}, h.take(10, now.Add(time.Second)))
	h.add("now", now.Add(time.Second), now.Add(time.Second))
	assert.Equal(t, []batch.ServiceID{"now", "2", "3"}, h.take(10, now.Add(time.Minute)))
}

func TestTheEarlierOfTwoHintsWins(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		first, second time.Duration
		want          time.Duration
	}{
		"later, then sooner":  {5 * time.Second, time.Second, time.Second},
		"sooner, then later":  {time.Second, 5 * time.Second, time.Second},
		"later, then at once": {5 * time.Second, 0, 0},
		"at once, then later": {0, 5 * time.Second, 0},
		"past, then later":    {-time.Second, time.Second, 0},
		"twice the same":      {time.Second, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHints()
			h.add("s", now.Add(c.first), now)
			h.add("s", now.Add(c.second), now)
			if c.want > 0 {
				assert.Empty(t, h.take(10, now.Add(c.want-1)))
			}
			assert.Equal(t, []batch.ServiceID{"s"}, h.take(10, now.Add(c.want)))
			assert.Empty(t, h.take(10, now.Add(time.Hour)), "once, not again at the other time")
			_, ok := h.next(now.Add(time.Hour))
			assert.False(t, ok)
			assert.Empty(t, h.due)
			assert.Empty(t, h.later)
		})
	}
}

// Against a model: a lane is taken once its earliest time has come, and only once.
func TestHintsAgainstAModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	now := time.Unix(1000, 0)
	h, model := newHints(), map[batch.ServiceID]time.Time{}
	for range 20_000 {
		now = now.Add(time.Duration(rng.IntN(50)) * time.Millisecond)
		if rng.IntN(3) > 0 {
			s := batch.ServiceID(fmt.Sprint(rng.IntN(40)))
			at := now.Add(time.Duration(rng.IntN(2000)-500) * time.Millisecond)
			if old, ok := model[s]; !ok || at.Before(old) {
				model[s] = at
			}
			h.add(s, at, now)
			continue
		}
		n := rng.IntN(10)
		ready := 0
		var first time.Time
		for _, at := range model {
			if !at.After(now) {
				ready++
			}
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		at, ok := h.next(now)
		require.Equal(t, len(model) > 0, ok)
		if ok && ready == 0 {
			require.Equal(t, first, at)
		}
		require.Equal(t, ok && ready > 0, ok && at.IsZero())
		got := h.take(n, now)
		require.Len(t, got, min(n, ready))
		for _, s := range got {
			at, known := model[s]
			require.True(t, known && !at.After(now), "%s", s)
			delete(model, s)
		}
		require.Len(t, h.due, len(model))
	}
}
