package splinter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProber shows that only a pair of probes with no event between their echoes proves anything.
func TestProber(t *testing.T) {
	const every = time.Second
	now := time.Unix(1000, 0)
	tick := func() time.Time { now = now.Add(time.Millisecond); return now }
	fresh := func() *prober { p := newProber(every); return &p }
	send := func(p *prober) (string, time.Time) {
		t.Helper()
		at := tick()
		text, err := p.nextProbe(at, false)
		require.NoError(t, err)
		require.NotEmpty(t, text)
		return text, at
	}
	echo := func(p *prober, text string) {
		t.Helper()
		require.True(t, p.isEcho([]byte(text), tick()))
	}

	t.Run("a pair", func(t *testing.T) {
		p := fresh()
		a, sent := send(p)
		echo(p, a)
		assert.Zero(t, p.settledUntil, "one echo proves that somebody is there, and no more")
		b, _ := send(p)
		assert.NotEqual(t, a, b)
		echo(p, b)
		assert.Equal(t, sent, p.settledUntil, "what was published before the first was sent")
		text, err := p.nextProbe(tick(), false)
		assert.NoError(t, err)
		assert.Empty(t, text, "the next pair is not due")
		now = now.Add(every)
		send(p)
	})
	t.Run("an event before the first echo does not matter", func(t *testing.T) {
		p := fresh()
		a, sent := send(p)
		p.noteEvent()
		echo(p, a)
		b, _ := send(p)
		echo(p, b)
		assert.Equal(t, sent, p.settledUntil)
	})
	t.Run("an event between the echoes makes the second a first", func(t *testing.T) {
		p := fresh()
		a, _ := send(p)
		echo(p, a)
		b, sent := send(p)
		p.noteEvent()
		echo(p, b)
		assert.Zero(t, p.settledUntil)
		c, _ := send(p)
		echo(p, c)
		assert.Equal(t, sent, p.settledUntil)
	})
	t.Run("a replay proves nothing, and is not flooded", func(t *testing.T) {
		p := fresh()
		sent := 0
		for range 10 * maxProbesPerInterval {
			text, err := p.nextProbe(tick(), false)
			require.NoError(t, err)
			if text == "" {
				break
			}
			sent++
			echo(p, text)
			p.noteEvent()
		}
		assert.Equal(t, maxProbesPerInterval, sent)
		assert.Zero(t, p.settledUntil)
	})
	t.Run("not an echo", func(t *testing.T) {
		p := fresh()
		assert.False(t, p.isEcho([]byte(""), tick()))
		a, _ := send(p)
		assert.False(t, p.isEcho([]byte(`{"id":"x"}`), tick()))
		echo(p, a)
		assert.False(t, p.isEcho([]byte(a), tick()), "twice")
	})
	t.Run("silence", func(t *testing.T) {
		p := fresh()
		send(p)
		now = now.Add(maxSilentIntervals*every + time.Second)
		_, err := p.nextProbe(now, true)
		assert.NoError(t, err, "it may be among what was not read yet")
		_, err = p.nextProbe(now, false)
		assert.ErrorIs(t, err, errNoEcho)
	})
}
