package splinter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// TestHeldServices shows how long new batches wait for a log.
func TestHeldServices(t *testing.T) {
	const s = batch.ServiceID("aaaaa-bbbbb::a000")
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var h heldServices
	_, held := h.brokeAt(s)
	assert.False(t, held)
	assert.False(t, h.noteContact(s, true, start))

	h.begin(s, start)
	assert.True(t, h.noteContact(s, false, at(time.Hour)), "the node is down")
	assert.True(t, h.noteContact(s, true, at(time.Hour)))
	assert.True(t, h.noteContact(s, true, at(time.Hour+maxHoldTime-1)))
	assert.True(t, h.noteContact(s, false, at(time.Hour+maxHoldTime)), "down again")
	assert.True(t, h.noteContact(s, true, at(2*time.Hour)))
	assert.False(t, h.noteContact(s, true, at(2*time.Hour+maxHoldTime)), "not for ever")
	assert.False(t, h.noteContact(s, true, at(2*time.Hour+maxHoldTime)))

	h.begin(s, at(time.Second))
	h.end(s, start)
	broke, held := h.brokeAt(s)
	assert.True(t, held, "another break")
	h.end(s, broke)
	_, held = h.brokeAt(s)
	assert.False(t, held)
}

// TestLogIsUnbroken shows which logs are waited for.
func TestLogIsUnbroken(t *testing.T) {
	ends := batch.StreamFound{Covered: true, Cursor: "a", Since: time.Hour, Until: 10 * time.Second}
	assert.True(t, isUnbroken(ends, 10*time.Second))
	assert.False(t, isUnbroken(ends, 11*time.Second), "written since")
	for name, change := range map[string]func(*batch.StreamFound){
		"no root": func(f *batch.StreamFound) { f.Cursor = "" },
		"no span": func(f *batch.StreamFound) { f.Covered = false },
	} {
		f := ends
		change(&f)
		assert.False(t, isUnbroken(f, 10*time.Second), name)
	}
}

// TestWaitUntilALogIsOldEnough shows that a batch waits for a log which has begun anew until that
// log covers the batch with the margin of a proof. It does not wait if no log has begun.
func TestWaitUntilALogIsOldEnough(t *testing.T) {
	const margin = 10 * time.Second
	for since, want := range map[time.Duration]time.Duration{0: 20 * time.Second, 15 * time.Second: 5 * time.Second, 20 * time.Second: 0, time.Hour: 0} {
		assert.Equal(t, want, waitUntilOldEnough(batch.StreamFound{Covered: true, Since: since}, margin), since)
	}
	assert.Zero(t, waitUntilOldEnough(batch.StreamFound{}, margin))

	// The batch was claimed up to a margin before it was sent, and its node crashed at once.
	log := batch.StreamFound{Covered: true, Since: 2 * margin}
	k := doubtFacts{resolveRules: resolveRules{lateArrival: time.Minute, margin: margin}, log: log, hasLog: true}
	k.doubt.Since, k.doubt.Ended = margin, 0
	later := time.Hour
	k.log.Since += later
	k.doubt.Since += later
	k.doubt.Ended += later
	assert.True(t, k.isMissingInLog())
}
