package pool_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pool"
)

const slowLimit = time.Second

func mustAcquire(t *testing.T, p *pool.Pool, key string) *pool.Hand {
	t.Helper()
	h, ok := p.Acquire(key)
	require.True(t, ok, "a hand for %q", key)
	return h
}

func mustBeRefused(t *testing.T, p *pool.Pool, key string) {
	t.Helper()
	_, ok := p.Acquire(key)
	require.False(t, ok, "a hand for %q", key)
}

func TestHandsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := 0
		p := pool.New(2, slowLimit, func() { freed++ })
		assert.Equal(t, 2, p.Free())
		a, b := mustAcquire(t, p, "a"), mustAcquire(t, p, "a")
		assert.Equal(t, 0, p.Free())
		assert.Equal(t, 2, p.Busy())
		mustBeRefused(t, p, "a")
		mustBeRefused(t, p, "b")
		a.Release(false)
		assert.Equal(t, 1, freed, "told of every hand that becomes free")
		assert.Equal(t, 1, p.Free())
		assert.Equal(t, 1, p.Busy())
		c := mustAcquire(t, p, "b")
		mustBeRefused(t, p, "a")
		b.Release(false)
		c.Release(false)
		assert.Equal(t, 3, freed)
		assert.Equal(t, 2, p.Free())
		assert.Equal(t, 0, p.Busy())
	})
}

// Promise 7: services that hang share at most a quarter of the pool.
func TestSlowKeysShareAQuarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(8, slowLimit, func() {})
		for i := range 8 { // each ran into its time limit once
			mustAcquire(t, p, fmt.Sprint("slow", i)).Release(true)
		}
		a, b := mustAcquire(t, p, "slow0"), mustAcquire(t, p, "slow1")
		mustBeRefused(t, p, "slow2")
		mustBeRefused(t, p, "slow0")
		assert.Equal(t, 8, p.Free(), "slow keys take nothing from the others")
		var others []*pool.Hand
		for i := range 8 {
			others = append(others, mustAcquire(t, p, fmt.Sprint("brisk", i)))
		}
		mustBeRefused(t, p, "brisk8")
		assert.Equal(t, 10, p.Busy())

		a.Release(true)
		c := mustAcquire(t, p, "slow2")
		mustBeRefused(t, p, "slow0")
		b.Release(false) // it ended in time, so the key is no longer slow
		others[0].Release(false)
		d := mustAcquire(t, p, "slow1")
		assert.Equal(t, 0, p.Free(), "slow1 is served as any other again")
		for _, h := range append(others[1:], c, d) {
			h.Release(false)
		}
		assert.Equal(t, 0, p.Busy())
	})
}

func TestASmallPoolHasOneHandForSlowKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(2, slowLimit, func() {})
		mustAcquire(t, p, "a").Release(true)
		mustAcquire(t, p, "b").Release(true)
		h := mustAcquire(t, p, "a")
		mustBeRefused(t, p, "b")
		h.Release(true)
	})
}

// A request that becomes slow gives its place to others while it goes on.
func TestARequestThatTurnsSlowGivesItsPlaceUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed atomic.Int64
		p := pool.New(4, slowLimit, func() { freed.Add(1) })
		var hanging []*pool.Hand
		for i := range 4 {
			hanging = append(hanging, mustAcquire(t, p, fmt.Sprint("hangs", i)))
		}
		time.Sleep(slowLimit - time.Millisecond)
		synctest.Wait()
		mustBeRefused(t, p, "other")
		assert.Zero(t, freed.Load())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 4, freed.Load(), "told of each place")
		assert.Equal(t, 4, p.Free())
		assert.Equal(t, 4, p.Busy())
		mustBeRefused(t, p, "hangs0")

		var more []*pool.Hand
		for i := range 4 {
			more = append(more, mustAcquire(t, p, fmt.Sprint("other", i)))
		}
		time.Sleep(2 * slowLimit)
		synctest.Wait()
		assert.Equal(t, 8, p.Busy(), "as many again, and no more")
		mustBeRefused(t, p, "another")
		for _, h := range append(hanging, more...) {
			h.Release(true)
		}
		assert.Equal(t, 4, p.Free())
		assert.Equal(t, 0, p.Busy())
		refusedAfter := mustAcquire(t, p, "hangs0")
		mustBeRefused(t, p, "other0") // this key hung, too
		refusedAfter.Release(false)
	})
}

func TestReleasedHandsDoNotTurnSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(1, slowLimit, func() {})
		for range 5 {
			mustAcquire(t, p, "a").Release(false)
		}
		time.Sleep(2 * slowLimit)
		synctest.Wait()
		assert.Equal(t, 1, p.Free())
		assert.Equal(t, 0, p.Busy())
		h := mustAcquire(t, p, "a")
		assert.Equal(t, 0, p.Free(), "a is not slow")
		h.Release(false)
	})
}

func TestRecentCountsAboutTheLast100ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(4, slowLimit, func() {})
		assert.Zero(t, p.Recent(time.Now()))
		end := func(n int) {
			h := mustAcquire(t, p, "a")
			h.Posted(n - 1) // several batches with one hand
			h.Posted(1)
			h.Release(false)
		}
		end(5)
		assert.Equal(t, 5, p.Recent(time.Now()))
		time.Sleep(100 * time.Millisecond)
		end(2)
		assert.Equal(t, 5, p.Recent(time.Now()), "the window before still counts")
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, 2, p.Recent(time.Now()))
		time.Sleep(200 * time.Millisecond)
		assert.Zero(t, p.Recent(time.Now()))
	})
}

func TestTheMemoryOfSlowKeysIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(4, slowLimit, func() {})
		for i := range 10_000 {
			mustAcquire(t, p, fmt.Sprint(i)).Release(true)
		}
		first := mustAcquire(t, p, "0")
		mustBeRefused(t, p, "1")
		first.Release(true)
		mustAcquire(t, p, "one too many").Release(true)
		h := []*pool.Hand{mustAcquire(t, p, "1"), mustAcquire(t, p, "2")} // forgotten
		assert.Equal(t, 2, p.Free())
		for _, h := range h {
			h.Release(false)
		}
	})
}
