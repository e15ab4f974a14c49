package moving

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// after returns the facts after a step.
func after(f facts, next Step) facts {
	set := func(m *mark, s state) *mark {
		c := *m
		c.State = s
		return &c
	}
	switch next {
	case StepAnnounce:
		f.old = &mark{Role: roleOld, Move: "m", State: announced}
	case StepPrepare:
		f.new = &mark{Role: roleNew, Move: "m", State: announced, Place: "p"}
	case StepBind:
		f.old = set(f.old, announced)
		f.old.Place = "p"
	case StepTables:
		f.new = set(f.new, ready)
	case StepPause:
		f.control = batch.Control{PausedAt: batch.Control{}.PausedAt.Add(1), PausedBy: by("m")}
	case StepRename:
		f.old, f.oldTables = set(f.old, moved), false
	case StepCopy:
		f.new = set(f.new, copied)
	case StepCompare:
		f.new = set(f.new, compared)
	case StepLetGo:
		f.old = set(f.old, gone)
	case StepPlace:
		f.new, f.newTables = set(f.new, arrived), true
	case StepResume:
		f.control = batch.Control{}
	case StepFinish:
		f.old = set(f.old, done)
	case StepTidy:
		f.new = nil
	}
	return f
}

// A move makes all steps in their order. Stores never find the tables on both servers, and Back is
// possible only until the new server has them.
func TestDecide(t *testing.T) {
	f := facts{oldTables: true}
	var went []Step
	for {
		next, err := decide(f)
		require.NoError(t, err)
		if next == StepDone {
			break
		}
		assert.NotEmpty(t, next.Does())
		went = append(went, next)
		f = after(f, next)
		assert.False(t, f.oldTables && f.newTables, next)
		assert.False(t, f.newTables && f.canGoBack(), next)
		other := f
		other.move = "other"
		_, err = decide(other)
		require.ErrorIs(t, err, ErrRefused, "a process that has a part in another move, after %q", next)
	}
	var all []Step
	for _, s := range steps {
		all = append(all, s.Step)
	}
	assert.Equal(t, all, went)
}

// Marks that do not belong together are refused.
func TestDecideRefuses(t *testing.T) {
	old := func(s state, place string) *mark { return &mark{Role: roleOld, Move: "m", State: s, Place: place} }
	fresh := func(move string, s state, place string) *mark {
		return &mark{Role: roleNew, Move: move, State: s, Place: place}
	}
	for name, f := range map[string]facts{
		"no tables":                 {},
		"a move to the new one":     {oldTables: true, new: fresh("other", announced, "p")},
		"moved away from there":     {oldTables: true, new: &mark{Role: roleOld, Move: "other", State: done}},
		"moved here, and not done":  {oldTables: true, old: fresh("other", arrived, "p")},
		"another database":          {old: old(moved, "p"), new: fresh("m", ready, "q")},
		"another move":              {old: old(moved, "p"), new: fresh("other", ready, "p")},
		"a database without a mark": {old: old(gone, "p")},
		"rows before the rename":    {oldTables: true, old: old(announced, "p"), new: fresh("m", copied, "p")},
		"a move that was given up":  {oldTables: true, move: "m"},
		"one database, unbound":     {oldTables: true, old: old(announced, ""), new: old(announced, "")},
		"one database, bound":       {oldTables: true, old: old(announced, "p"), new: old(announced, "p")},
	} {
		_, err := decide(f)
		assert.ErrorIs(t, err, ErrRefused, name)
	}
	next, err := decide(facts{oldTables: true, old: old(returning, "p")})
	require.NoError(t, err)
	assert.Equal(t, StepGoBack, next)
	next, err = decide(facts{old: old(moved, "p"), new: fresh("m", arrived, "p"), newTables: true})
	require.NoError(t, err)
	assert.Equal(t, StepLetGo, next, "a failover has taken back that the old server was given up")
	for at, want := range map[state]Step{ready: StepCopy, copied: StepCompare} {
		next, err = decide(facts{old: old(gone, "p"), new: fresh("m", at, "p")})
		require.NoError(t, err)
		assert.Equal(t, want, next, "a failover has taken back rows of the new server")
	}
}
