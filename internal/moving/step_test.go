package moving

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// factsAfter returns the facts after a step.
func factsAfter(f facts, next Step) facts {
	set := func(m *mark, s markState) *mark {
		c := *m
		c.State = s
		return &c
	}
	switch next {
	case StepAnnounce:
		f.oldMark = &mark{Role: roleOld, MoveID: "m", State: stateAnnounced}
	case StepPrepare:
		f.newMark = &mark{Role: roleNew, MoveID: "m", State: stateAnnounced, PlaceID: "p"}
	case StepBind:
		f.oldMark = set(f.oldMark, stateAnnounced)
		f.oldMark.PlaceID = "p"
	case StepTables:
		f.newMark = set(f.newMark, stateTablesMade)
	case StepPause:
		f.control = batch.Control{PausedAt: batch.Control{}.PausedAt.Add(1), PausedBy: actorOf("m")}
	case StepRename:
		f.oldMark, f.oldTables = set(f.oldMark, stateTablesMoved), false
	case StepCopy:
		f.newMark = set(f.newMark, stateRowsCopied)
	case StepCompare:
		f.newMark = set(f.newMark, stateRowsCompared)
	case StepLetGo:
		f.oldMark = set(f.oldMark, stateGivenUp)
	case StepPlace:
		f.newMark, f.newTables = set(f.newMark, stateTablesPlaced), true
	case StepResume:
		f.control = batch.Control{}
	case StepFinish:
		f.oldMark = set(f.oldMark, stateDone)
	case StepTidy:
		f.newMark = nil
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
		f = factsAfter(f, next)
		assert.False(t, f.oldTables && f.newTables, next)
		assert.False(t, f.newTables && f.canGoBack(), next)
		other := f
		other.moveID = "other"
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
	old := func(s markState, place string) *mark {
		return &mark{Role: roleOld, MoveID: "m", State: s, PlaceID: place}
	}
	fresh := func(move string, s markState, place string) *mark {
		return &mark{Role: roleNew, MoveID: move, State: s, PlaceID: place}
	}
	for name, f := range map[string]facts{
		"no tables":                 {},
		"a move to the new one":     {oldTables: true, newMark: fresh("other", stateAnnounced, "p")},
		"moved away from there":     {oldTables: true, newMark: &mark{Role: roleOld, MoveID: "other", State: stateDone}},
		"moved here, and not done":  {oldTables: true, oldMark: fresh("other", stateTablesPlaced, "p")},
		"another database":          {oldMark: old(stateTablesMoved, "p"), newMark: fresh("m", stateTablesMade, "q")},
		"another move":              {oldMark: old(stateTablesMoved, "p"), newMark: fresh("other", stateTablesMade, "p")},
		"a database without a mark": {oldMark: old(stateGivenUp, "p")},
		"rows before the rename":    {oldTables: true, oldMark: old(stateAnnounced, "p"), newMark: fresh("m", stateRowsCopied, "p")},
		"a move that was given up":  {oldTables: true, moveID: "m"},
		"one database, unbound":     {oldTables: true, oldMark: old(stateAnnounced, ""), newMark: old(stateAnnounced, "")},
		"one database, bound":       {oldTables: true, oldMark: old(stateAnnounced, "p"), newMark: old(stateAnnounced, "p")},
	} {
		_, err := decide(f)
		assert.ErrorIs(t, err, ErrRefused, name)
	}
	next, err := decide(facts{oldTables: true, oldMark: old(stateTakenBack, "p")})
	require.NoError(t, err)
	assert.Equal(t, StepGoBack, next)
	next, err = decide(facts{oldMark: old(stateTablesMoved, "p"), newMark: fresh("m", stateTablesPlaced, "p"), newTables: true})
	require.NoError(t, err)
	assert.Equal(t, StepLetGo, next, "a failover has taken back that the old server was given up")
	for at, want := range map[markState]Step{stateTablesMade: StepCopy, stateRowsCopied: StepCompare} {
		next, err = decide(facts{oldMark: old(stateGivenUp, "p"), newMark: fresh("m", at, "p")})
		require.NoError(t, err)
		assert.Equal(t, want, next, "a failover has taken back rows of the new server")
	}
}
