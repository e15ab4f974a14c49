package submit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mustAdmit enters a gate that must let the request through.
func mustAdmit(t *testing.T, g *gate, now time.Time) passage {
	t.Helper()
	entered, ok := g.admit(now)
	require.True(t, ok)
	return entered
}

func mustRefuse(t *testing.T, g *gate, now time.Time) {
	t.Helper()
	_, ok := g.admit(now)
	require.False(t, ok)
	require.LessOrEqual(t, g.freePlaces(now), 0)
}

func TestTheGateClosesAndOneProbeOpensIt(t *testing.T) {
	for _, res := range []gateResult{resultBusy, resultMisconfigured} {
		now := time.Unix(1000, 0)
		g := newGate(4, time.Second)
		require.Equal(t, 4, g.freePlaces(now))
		before := mustAdmit(t, g, now)
		require.False(t, before.isProbe, "no probe while it is open")
		closed, opened := g.end(before, res, 0, now)
		assert.True(t, closed)
		assert.False(t, opened)
		wait := g.closedFor(now)
		require.Greater(t, wait, 100*time.Millisecond)
		mustRefuse(t, g, now)
		mustRefuse(t, g, now.Add(wait-1))

		now = now.Add(wait)
		require.Zero(t, g.closedFor(now))
		require.Equal(t, 1, g.freePlaces(now))
		probe := mustAdmit(t, g, now)
		require.True(t, probe.isProbe)
		mustRefuse(t, g, now)
		require.Equal(t, probePause, g.closedFor(now))
		closed, opened = g.end(probe, res, 0, now)
		assert.True(t, closed, "its reason may be another than before")
		assert.False(t, opened)
		again := g.closedFor(now)
		assert.Greater(t, again, wait, "the pause grows")

		now = now.Add(again)
		closed, opened = g.end(mustAdmit(t, g, now), resultTaken, 0, now)
		assert.False(t, closed)
		assert.True(t, opened)
		require.Zero(t, g.closedFor(now))
		require.Positive(t, g.freePlaces(now))
	}
}

func TestTheGateHonoursRetryAfter(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(4, time.Second)
	g.end(mustAdmit(t, g, now), resultBusy, time.Minute, now)
	assert.Equal(t, time.Minute, g.closedFor(now))
	mustRefuse(t, g, now.Add(time.Minute-1))
	assert.Equal(t, 1, g.freePlaces(now.Add(time.Minute)))
}

func TestTheGatesPauseIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(4, time.Second)
	for range 30 {
		g.end(mustAdmit(t, g, now), resultBusy, 0, now)
		wait := g.closedFor(now)
		require.LessOrEqual(t, wait, 25*time.Second, "15 s, and half of it by chance")
		now = now.Add(wait)
	}
}

// A request that was sent before the gate closed is not a probe, whenever its answer comes.
func TestOnlyTheProbeSpeaksForAClosedGate(t *testing.T) {
	for _, res := range []gateResult{resultBusy, resultMisconfigured, resultUnsure} {
		now := time.Unix(1000, 0)
		g := newGate(4, time.Second)
		late := mustAdmit(t, g, now)
		g.end(mustAdmit(t, g, now), resultBusy, 0, now)
		now = now.Add(g.closedFor(now))
		probe := mustAdmit(t, g, now)

		closed, opened := g.end(late, res, 0, now)
		assert.False(t, closed || opened)
		assert.Equal(t, probePause, g.closedFor(now), "the probe is still under way")
		mustRefuse(t, g, now.Add(time.Second-1))
		g.end(probe, resultTaken, 0, now)
		assert.Equal(t, 2, g.freePlaces(now), "and it is no more pressure than there was")
	}
}

func TestAProbeWithoutAnAnswerIsMadeAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(4, time.Second)
	g.end(mustAdmit(t, g, now), resultBusy, 0, now)
	now = now.Add(g.closedFor(now))
	closed, opened := g.end(mustAdmit(t, g, now), resultUnsure, 0, now)
	assert.False(t, closed || opened)
	wait := g.closedFor(now)
	assert.Greater(t, wait, 100*time.Millisecond)
	require.True(t, mustAdmit(t, g, now.Add(wait)).isProbe)
}

func TestDoubtDoesNotCloseTheGate(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(4, time.Second)
	closed, _ := g.end(mustAdmit(t, g, now), resultUnsure, 0, now)
	assert.False(t, closed)
	assert.Equal(t, 4, g.freePlaces(now))
}

// Pressure halves the number of requests that may be under way, and each success adds one.
func TestPressureHalvesAndSuccessAddsOne(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(8, time.Second)
	g.end(mustAdmit(t, g, now), resultBusy, 0, now)
	now = now.Add(g.closedFor(now))
	g.end(mustAdmit(t, g, now), resultTaken, 0, now)
	assert.Equal(t, 4, g.freePlaces(now))
	assert.True(t, g.isRestricted())
	var under []passage
	for range 4 {
		under = append(under, mustAdmit(t, g, now))
	}
	mustRefuse(t, g, now)
	assert.Positive(t, g.closedFor(now), "nothing may be sent, so it has to be waited for")
	for _, one := range under {
		g.end(one, resultTaken, 0, now)
	}
	assert.Equal(t, 8, g.freePlaces(now))
	assert.False(t, g.isRestricted())
	g.end(mustAdmit(t, g, now), resultTaken, 0, now)
	assert.Equal(t, 8, g.freePlaces(now), "no more than the pool has hands")

	for range 8 {
		mustAdmit(t, g, now)
	}
	assert.Zero(t, g.closedFor(now), "a full pool is no pressure")
}

func TestAMisconfigurationDoesNotHalve(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(8, time.Second)
	g.end(mustAdmit(t, g, now), resultMisconfigured, 0, now)
	now = now.Add(g.closedFor(now))
	g.end(mustAdmit(t, g, now), resultTaken, 0, now)
	assert.Equal(t, 8, g.freePlaces(now))
}

// A request that hangs tells nothing about the ledger, and takes no place from requests that might
// be answered.
func TestAHangingRequestKeepsNoPlace(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(2, time.Second)
	g.end(mustAdmit(t, g, now), resultBusy, 0, now)
	now = now.Add(g.closedFor(now))
	hung := mustAdmit(t, g, now)
	require.True(t, hung.isProbe)
	mustRefuse(t, g, now.Add(time.Second-1))
	now = now.Add(time.Second)
	second := mustAdmit(t, g, now)
	require.True(t, second.isProbe)
	closed, opened := g.end(hung, resultUnsure, 0, now)
	require.False(t, closed || opened)
	require.Equal(t, probePause, g.closedFor(now), "the second probe decides")
	_, opened = g.end(second, resultTaken, 0, now)
	require.True(t, opened)

	require.Equal(t, 1, g.freePlaces(now), "it is still under pressure")
	hung = mustAdmit(t, g, now)
	mustRefuse(t, g, now.Add(time.Second-1))
	now = now.Add(time.Second)
	second = mustAdmit(t, g, now)
	mustRefuse(t, g, now)
	g.end(hung, resultUnsure, 0, now)
	mustRefuse(t, g, now)
	g.end(second, resultTaken, 0, now)
	assert.Equal(t, 2, g.freePlaces(now))
}

// The late answer of a probe that hung does not change a gate that a later probe has opened.
func TestALateAnswerIsNoNews(t *testing.T) {
	for _, res := range []gateResult{resultBusy, resultMisconfigured} {
		now := time.Unix(1000, 0)
		g := newGate(4, time.Second)
		g.end(mustAdmit(t, g, now), resultBusy, 0, now)
		now = now.Add(g.closedFor(now))
		hung := mustAdmit(t, g, now)
		late := mustAdmit(t, g, now.Add(time.Second))
		now = now.Add(2 * time.Second)
		_, opened := g.end(mustAdmit(t, g, now), resultTaken, 0, now)
		require.True(t, opened)
		closed, _ := g.end(hung, res, 0, now)
		require.False(t, closed)
		require.Equal(t, 2, g.freePlaces(now))

		g.end(mustAdmit(t, g, now), resultBusy, 0, now)
		wait := g.closedFor(now)
		require.Positive(t, wait)
		g.end(late, res, time.Minute, now)
		require.Equal(t, wait, g.closedFor(now), "nor of one that was closed again since")
	}
}

// A ledger that hangs gets one probe each time that hangsAfter has passed, and no more.
func TestProbesOfALedgerThatHangs(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGate(64, time.Second)
	g.end(mustAdmit(t, g, now), resultBusy, 0, now)
	now = now.Add(g.closedFor(now))
	probes := 0
	for range 600 {
		if _, ok := g.admit(now); ok {
			probes++
		}
		now = now.Add(100 * time.Millisecond)
	}
	assert.Equal(t, 60, probes)
}
