package lanes

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// The test has the rule for each request, with a rest, at a time before and after the end of the
// rest.
func TestDue(t *testing.T) {
	now := time.Unix(1000, 0)
	early, late := now.Add(-time.Second), now.Add(time.Second)
	for name, c := range map[string]struct {
		entry     entry
		wantAt    time.Time
		wantQueue request
	}{
		"nobody asks":                             {entry{}, time.Time{}, requestNone},
		"nobody asks, after a rest":               {entry{restUntil: early}, time.Time{}, requestNone},
		"named":                                   {entry{request: requestNamed, requestedFor: now}, now, requestNamed},
		"named for later":                         {entry{request: requestNamed, requestedFor: late}, late, requestNamed},
		"found":                                   {entry{request: requestFound, requestedFor: now}, now, requestFound},
		"named, and a claim looks at it":          {entry{request: requestNamed, requestedFor: now, isClaimed: true}, time.Time{}, requestNone},
		"found, and a claim looks at it":          {entry{request: requestFound, requestedFor: now, isClaimed: true}, time.Time{}, requestNone},
		"named while it rests":                    {entry{request: requestNamed, requestedFor: now, restUntil: late}, late, requestNamed},
		"named for the end of its rest":           {entry{request: requestNamed, requestedFor: late, restUntil: late}, late, requestNamed},
		"named for a time after its rest":         {entry{request: requestNamed, requestedFor: late, restUntil: now}, late, requestNamed},
		"named after its rest":                    {entry{request: requestNamed, requestedFor: now, restUntil: early}, now, requestNamed},
		"found while it rests":                    {entry{request: requestFound, requestedFor: now, restUntil: late}, late, requestNamed},
		"found after its rest":                    {entry{request: requestFound, requestedFor: now, restUntil: early}, now, requestFound},
		"named while it rests, and a claim looks": {entry{request: requestNamed, requestedFor: now, isClaimed: true, restUntil: late}, time.Time{}, requestNone},
	} {
		wantAt, wantQueue := c.entry.due()
		assert.Equal(t, c.wantQueue, wantQueue, name)
		assert.Equal(t, c.wantAt, wantAt, name)
	}
}

// The test has every kind of entry with every event.
func TestEvents(t *testing.T) {
	const s = "s"
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	claim := func(l *Table) { l.Name(in(0), s); l.Take(1) }
	rests := func(l *Table) { l.RunBegan(s, in(9*time.Second)) }
	kinds := []struct {
		name string
		make func(*Table)
		want string // when the lane is due after each of the events
	}{
		{"unknown", func(*Table) {},
			"-     0s    5s    0s    5s    -     found -     -     5s    soon  -     -"},
		{"found", func(l *Table) { l.Find([]batch.ServiceID{s}) },
			"found 0s    found 0s    found found found -     found found soon  2s    30s"},
		{"named", func(l *Table) { l.Name(in(0), s) },
			"0s    0s    0s    0s    0s    0s    0s    -     0s    0s    soon  2s    30s"},
		{"named for 3s", func(l *Table) { l.Name(in(3*time.Second), s) },
			"3s    0s    3s    0s    3s    3s    found 3s    3s    3s    soon  3s    30s"},
		{"claimed", claim,
			"-     -     -     -     -     -     -     -     -     5s    soon  -     -"},
		{"claimed, found", func(l *Table) { claim(l); l.Find([]batch.ServiceID{s}) },
			"-     -     -     -     -     -     -     -     found found soon  -     -"},
		{"claimed, named", func(l *Table) { claim(l); l.Name(in(0), s) },
			"-     -     -     -     -     -     -     -     0s    0s    soon  -     -"},
		{"claimed, out", func(l *Table) { claim(l); rests(l) },
			"-     -     -     -     -     -     -     -     -     9s    soon  -     -"},
		{"out", rests,
			"-     9s    9s    0s    5s    0s    9s    -     -     9s    soon  -     -"},
		{"out, found", func(l *Table) { rests(l); l.Find([]batch.ServiceID{s}) },
			"9s    9s    9s    0s    5s    0s    9s    9s    9s    9s    soon  2s    30s"},
		{"out, named", func(l *Table) { rests(l); l.Name(in(0), s) },
			"9s    9s    9s    0s    5s    0s    9s    9s    9s    9s    soon  2s    30s"},
		{"out, named for 20s", func(l *Table) { rests(l); l.Name(in(20*time.Second), s) },
			"20s   9s    9s    0s    5s    0s    9s    20s   20s   9s    soon  20s   30s"},
		{"out is over", func(l *Table) { l.RunBegan(s, in(0)); l.Name(in(0), s) },
			"0s    0s    0s    0s    5s    0s    0s    -     0s    0s    soon  2s    30s"},
		{"read, named", func(l *Table) { l.Rest(s, in(9*time.Second)); l.Name(in(0), s) },
			"9s    9s    9s    9s    9s    9s    9s    9s    9s    9s    soon  2s    30s"},
		{"failed", func(l *Table) { claim(l); l.Failed(s) },
			"soon  soon  soon  soon  soon  soon  soon  soon  soon  soon  soon  2s    30s"},
		{"out, failed", func(l *Table) { claim(l); rests(l); l.Failed(s) },
			"soon  soon  soon  soon  soon  soon  soon  soon  soon  soon  soon  2s    30s"},
	}
	events := []struct {
		name string
		do   func(*Table)
	}{
		{"nothing", func(*Table) {}},
		{"named", func(l *Table) { l.Name(in(0), s) }},
		{"named for 5s", func(l *Table) { l.Name(in(5*time.Second), s) }},
		{"freed", func(l *Table) { l.Free(in(0), s) }},
		{"freed for 5s", func(l *Table) { l.Free(in(5*time.Second), s) }},
		{"over", func(l *Table) { l.RunEnded(s) }},
		{"found", func(l *Table) { l.Find([]batch.ServiceID{s}) }},
		{"taken", func(l *Table) { l.Take(1) }},
		{"done", func(l *Table) { l.Done(s) }},
		{"back for 5s", func(l *Table) { l.Back(in(5*time.Second), s) }},
		{"failed", func(l *Table) { l.Failed(s) }},
		{"read", func(l *Table) { l.Rest(s, in(2*time.Second)) }},
		{"out", func(l *Table) { l.RunBegan(s, in(30*time.Second)) }},
	}
	for _, k := range kinds {
		wants := strings.Fields(k.want)
		require.Len(t, wants, len(events), k.name)
		for i, e := range events {
			t.Run(k.name+"/"+e.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := New(10)
					k.make(l)
					e.do(l)
					assert.Equal(t, wants[i], laneState(l, s))
				})
			})
		}
	}
}

// laneState returns when a lane is due: "-" is never, "found" is now and in the queue of found
// lanes, and "soon" is after the pause that follows a failure.
func laneState(t *Table, s batch.ServiceID) string {
	l := t.lanes[s]
	if l == nil {
		return "-"
	}
	at, in := l.due()
	d := time.Until(at)
	switch {
	case in == requestNone:
		return "-"
	case in == requestFound:
		return "found"
	case d > 0 && d < time.Second:
		return "soon"
	}
	return d.String()
}
