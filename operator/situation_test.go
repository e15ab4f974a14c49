package operator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// lookTime is when the surveys of these tests were made.
var lookTime = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// onlyIncident returns the only incident of a kind.
func onlyIncident(t *testing.T, s operator.Facts, kind operator.IncidentKind) operator.Incident {
	var found []operator.Incident
	for _, i := range s.Situation().Incidents {
		if i.Kind == kind {
			found = append(found, i)
		}
	}
	require.Len(t, found, 1, kind)
	return found[0]
}

// Since, Why and Command of an incident are about the same lane.
func TestAnIncidentIsAboutOneLane(t *testing.T) {
	lane := func(name batch.ServiceID, hour int) batch.Control {
		at := lookTime.Add(time.Duration(hour-12) * time.Hour)
		return batch.Control{
			Scope: batch.Only(name), HaltedAt: at, HaltReason: "halt of " + string(name),
			PausedAt: at, PausedBy: batch.By{Actor: "ada", Reason: "pause of " + string(name)},
		}
	}
	a, b, c := lane("a", 9), lane("b", 7), lane("c", 10)
	group := func(cause batch.Cause, held batch.Control) operator.Group {
		e := batch.Explanation{Key: batch.Key{Service: held.Service, ID: "x"}, Cause: cause, Control: held}
		return operator.Group{Reason: operator.Reason{Cause: cause}, Batches: 1, Lanes: 1, Example: e}
	}
	sight := operator.Facts{Causes: operator.Causes{At: lookTime}, Held: []batch.Control{a, b, c}}
	for kind, cause := range map[operator.IncidentKind]batch.Cause{operator.IncidentHalted: batch.CauseHalted, operator.IncidentPaused: batch.CausePaused} {
		sight.Causes.Groups = nil
		i := onlyIncident(t, sight, kind)
		assert.Contains(t, i.Command, " b ", "the one that is held longest")
		assert.Contains(t, i.Why, " of b")
		assert.Equal(t, b.HaltedAt, i.Since)

		sight.Causes.Groups = []operator.Group{group(cause, c)}
		i = onlyIncident(t, sight, kind)
		assert.Contains(t, i.Command, " c ", "the one with a batch")
		assert.Contains(t, i.Why, " of c")
		assert.Equal(t, c.HaltedAt, i.Since)
	}
	sight.Everything = batch.Control{Scope: batch.Everything(), PausedAt: lookTime, PausedBy: batch.By{Actor: "bob"}}
	i := onlyIncident(t, sight, operator.IncidentPaused)
	assert.Contains(t, i.Command, "--all", "a kept look is from before everything was paused")
	assert.Equal(t, "By bob.", i.Why)
}

// The state is not "all well" if the survey did not reach all lanes, and batches that were only
// counted make incidents, too.
func TestALookThatDidNotFinish(t *testing.T) {
	sight := operator.Facts{Causes: operator.Causes{At: lookTime}}
	assert.Equal(t, operator.StateWell, sight.Situation().State)
	sight.Causes.Incomplete = true
	assert.Equal(t, operator.StatePart, sight.Situation().State)
	assert.Empty(t, sight.Situation().Incidents)

	sight.Counted = true
	sight.Stats.Instances = []store.Instance{{Name: "a", Live: true}}
	sight.Stats.At, sight.Stats.Undecided, sight.Stats.Halted = lookTime.Add(-time.Second), 2, 3
	assert.Equal(t, "A person has to decide about 2 batches.", onlyIncident(t, sight, operator.IncidentDecision).Text)
	assert.Equal(t, operator.StatePerson, sight.Situation().State)
	sight.HeldMore = true
	halted := onlyIncident(t, sight, operator.IncidentHalted)
	assert.Equal(t, "3 lanes are halted until a person releases them.", halted.Text)
	assert.Equal(t, "dltbatch lanes", halted.Command)

	sight.Causes.Incomplete, sight.HeldMore = false, false
	assert.Empty(t, sight.Situation().Incidents, "all was looked at, after the count")
	sight.Stats.At = lookTime.Add(time.Second)
	onlyIncident(t, sight, operator.IncidentDecision)
}

// A batch about which a person was called because it has not moved for long is an incident, with
// the same text as the batch's explanation. A batch that needs a ruling comes before it.
func TestACallIsAnIncident(t *testing.T) {
	group := func(id batch.ID, cause batch.Cause, remedy batch.Remedy) operator.Group {
		e := batch.Explanation{Key: batch.Key{Service: "s", ID: id}, Cause: cause, Remedy: remedy, Decision: "why of " + string(id), Text: "text"}
		return operator.Group{Reason: operator.Reason{Cause: cause, Remedy: remedy, Called: cause != batch.CauseDecision}, Batches: 1, Lanes: 1, Example: e}
	}
	stuck, decide := group("stuck", batch.CauseDelayed, batch.RemedyWait), group("doubt", batch.CauseDecision, batch.RemedyDecide)
	sight := operator.Facts{Causes: operator.Causes{At: lookTime, Groups: []operator.Group{stuck}}}
	i := onlyIncident(t, sight, operator.IncidentDecision)
	assert.Equal(t, "A person has to decide about 1 batch.", i.Text)
	assert.Equal(t, "dltbatch explain stuck", i.Command, "no ruling ends it")
	assert.Equal(t, "why of stuck.", i.Why)
	assert.Equal(t, operator.StatePerson, sight.Situation().State)
	assert.Empty(t, sight.Situation().Moving)

	sight.Causes.Groups = []operator.Group{stuck, decide}
	i = onlyIncident(t, sight, operator.IncidentDecision)
	assert.Equal(t, "A person has to decide about 2 batches.", i.Text)
	assert.Contains(t, i.Command, "dltbatch decide doubt ")
	assert.Equal(t, "why of doubt.", i.Why)
}

// The state is not "all well" while an incident is open that ends by itself, and each example has
// a text.
func TestWhatEndsByItselfIsNotWell(t *testing.T) {
	busy := operator.Group{
		Reason: operator.Reason{Cause: batch.CauseDelayed, Kind: batch.KindBusy}, Batches: 1, Lanes: 1, Attempts: 9,
		Example: batch.Explanation{Key: batch.Key{Service: "s", ID: "x"}, Cause: batch.CauseDelayed, Text: "text"},
	}
	sight := operator.Facts{Causes: operator.Causes{At: lookTime, Groups: []operator.Group{busy}}}
	assert.True(t, onlyIncident(t, sight, operator.IncidentLedgerBusy).ByItself)
	assert.Equal(t, operator.StateWaits, sight.Situation().State)

	unmet := operator.Group{
		Reason: operator.Reason{Cause: operator.CauseUnknown, Missing: operator.MissingLedger}, Batches: 1, Lanes: 1, Oldest: time.Hour,
		Example: batch.Explanation{Key: batch.Key{Service: "s", ID: "x"}, Cause: operator.CauseUnknown, State: batch.Queued},
	}
	sight.Causes.Groups = []operator.Group{unmet}
	assert.Equal(t, "queued: it waits in its lane.", onlyIncident(t, sight, operator.IncidentUnserved).Example.Text)
}

// Counts are old ten minutes after the longest rest of a live instance.
func TestCountsOfInstancesThatRest(t *testing.T) {
	sight := operator.Facts{Causes: operator.Causes{At: lookTime}, Counted: true}
	sight.Stats.Instances = []store.Instance{{Name: "a", Live: true, Every: 15 * time.Second}, {Name: "b", Live: true, Every: time.Hour}, {Name: "c", Every: 24 * time.Hour}}
	sight.Stats.At, sight.Stats.Age = lookTime.Add(-time.Hour), time.Hour
	assert.Empty(t, sight.Situation().Incidents)
	sight.Stats.Age += 11 * time.Minute
	onlyIncident(t, sight, operator.IncidentCountsOld)
}

// The most attempts of any batch of a group decide whether the ledger is an incident, not those of
// the example.
func TestTheMostAttemptsCount(t *testing.T) {
	g := operator.Group{
		Reason: operator.Reason{Cause: batch.CauseDelayed, Kind: batch.KindUnavailable}, Batches: 2, Lanes: 2, Attempts: 9,
		Example: batch.Explanation{Key: batch.Key{Service: "a", ID: "x"}, Attempts: 1},
	}
	onlyIncident(t, operator.Facts{Causes: operator.Causes{At: lookTime, Groups: []operator.Group{g}}}, operator.IncidentLedgerDown)
}

// A lane or a batch whose name begins with "-" is not read as a flag of a suggested command.
func TestANameIsNoFlag(t *testing.T) {
	e := batch.Explanation{Key: batch.Key{Service: "--all", ID: "-b"}, Remedy: batch.RemedyResume}
	e.Control.Scope = batch.Only("--all")
	assert.Equal(t, "dltbatch resume --reason WHY -- '--all'", operator.Command(e))
	e.Control.Scope = batch.Everything()
	assert.Equal(t, "dltbatch resume --all --reason WHY", operator.Command(e))
	e.Remedy = batch.RemedyDecide
	assert.Contains(t, operator.Command(e), "dltbatch decide --reason WHY -- '-b' committed|")
	e.ID = "b"
	assert.Equal(t, "dltbatch decide b committed|not_executed_send_again|not_executed_reject --reason WHY", operator.Command(e))
}

// The manual's table lists each kind of incident, because the person who is called reads it.
func TestEachIncidentIsInTheManual(t *testing.T) {
	code, err := os.ReadFile("incident.go")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	require.NoError(t, err)
	kinds := regexp.MustCompile(`IncidentKind += "(\w+)"`).FindAllStringSubmatch(string(code), -1)
	require.NotEmpty(t, kinds)
	for _, k := range kinds {
		require.Less(t, operator.IncidentKind(k[1]).Rank(), len(kinds), "%s has no rank", k[1])
		assert.Regexp(t, "(?m)^\\|.*`"+k[1]+"`.*\\|.*\\|.*\\|$", string(page), "docs/operations.md has no row of %s", k[1])
	}
}

// An incident about batches that nothing moves, or about a store with a warning, says when it
// began.
func TestEachIncidentSaysSinceWhen(t *testing.T) {
	group := func(cause batch.Cause, missing operator.Missing) operator.Group {
		return operator.Group{Reason: operator.Reason{Cause: cause, Missing: missing}, Batches: 1, Lanes: 1, Oldest: time.Hour}
	}
	for kind, g := range map[operator.IncidentKind]operator.Group{
		operator.IncidentDisagree: group(operator.CauseUnknown, operator.MissingAgreement), operator.IncidentUnserved: group(batch.CauseUnserved, ""),
		operator.IncidentNotRecorded: group(operator.CauseUnknown, operator.MissingRecord), operator.IncidentHeld: group(batch.CauseHeld, ""),
	} {
		is := onlyIncident(t, operator.Facts{Causes: operator.Causes{At: lookTime, Groups: []operator.Group{g}}}, kind)
		assert.Equal(t, lookTime.Add(-time.Hour), is.Since, kind)
		assert.Equal(t, time.Hour, is.For, kind)
	}
	of := func(name string, warns time.Duration) store.Instance {
		return store.Instance{Name: name, Live: true, Seen: lookTime, Warnings: []string{"The log grows."}, WarnsFor: warns}
	}
	warns := operator.Facts{Causes: operator.Causes{At: lookTime}, Counted: true, Stats: store.Stats{Instances: []store.Instance{of("a", time.Minute), of("b", 2*time.Minute)}}}
	assert.Equal(t, lookTime.Add(-2*time.Minute), onlyIncident(t, warns, operator.IncidentStore).Since, "that of the oldest")
}

// The incident of a growing queue keeps its Since from one survey to the next.
func TestAQueueGrowsSinceOneMoment(t *testing.T) {
	var counts store.Totals
	var since []time.Time
	for n := range 40 {
		at := lookTime.Add(time.Duration(n) * operator.CellLength)
		counts = store.Totals{At: at, Open: map[batch.State]int{batch.Queued: 100 * n}}.After(counts)
		sight := operator.Facts{Counted: true, Stats: store.Stats{Totals: counts}, Causes: operator.Causes{At: at}}
		sight.Stats.Instances = []store.Instance{{Name: "one", Live: true, Flows: []store.Flow{{Took: operator.CellLength, Final: 1}}}}
		if n >= 4 {
			since = append(since, onlyIncident(t, sight, operator.IncidentGrowing).Since)
		}
	}
	assert.Equal(t, lookTime, since[0])
	assert.Equal(t, lookTime, since[len(since)-1])
}

// If each live instance holds back a lane, or the lane's ledger, an explanation says since when,
// and by which instances. If one instance posts, the explanation does not say this.
func TestALaneBehindAGate(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s", "other")
		o.add(newBatch("s", "b"), newBatch("other", "o"))
		var first, second texts.Presence
		shows := func(p *texts.Presence, id string, pauses ...store.Pause) {
			o.Helper()
			require.NoError(o, p.Show(o.ctx(), o.st, store.Instance{ID: id, Name: id, Pauses: pauses}))
		}
		says := func(lane batch.ServiceID, id batch.ID) string {
			o.Helper()
			e, err := o.Explain(o.ctx(), batch.Key{Service: lane, ID: id})
			require.NoError(o, err)
			return e.Text
		}
		ofLane := store.Pause{Ledger: traits.Name, Service: "s", Kind: batch.KindUnavailable, Why: "connection refused", For: time.Minute}
		shows(&first, "one", ofLane)
		assert.Regexp(o, `Nothing of its lane is posted: the ledger is not reached\. Held since 2[0-9 :-]+Z by instance one: connection refused\.$`, says("s", "b"))
		assert.Contains(o, says("other", "o"), "the next round of a running instance takes it")
		now, err := o.Situation(o.ctx(), operator.CausesQuery{})
		require.NoError(o, err)
		require.Len(o, now.Moving, 1)
		for _, m := range now.Moving {
			assert.Equal(o, m.Example.Service == "s", m.Held != "")
		}

		shows(&second, "two")
		assert.Contains(o, says("s", "b"), "the next round of a running instance takes it", "the second posts")
		shows(&second, "two", store.Pause{Ledger: traits.Name, All: true, Kind: batch.KindBusy, For: time.Hour})
		assert.Contains(o, says("s", "b"), "by 2 instances: connection refused.")
		ofLane.Kind, ofLane.For = batch.KindBusy, time.Second
		shows(&first, "one", ofLane)
		assert.Contains(o, says("s", "b"), "the next round of a running instance takes it", "it may be over")
	})
}

// While nothing is posted, an instance compares the settings of a new lane late. An explanation
// says what the lane waits for, and not that its settings are missing.
func TestALaneThatWasMetWhileNothingIsPosted(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.recordServing(traits, queuer.Serial(), "s")
		_, err := texts.Serve(o.ctx(), o.st, []texts.Served{{Service: "new", Ledger: traits.Name}})
		require.NoError(o, err)
		o.add(newBatch("new", "b"))
		var p texts.Presence
		i := store.Instance{ID: "one", Name: "one", Ledger: traits.Name}
		require.NoError(o, p.Show(o.ctx(), o.st, i))
		_, err = o.Explain(o.ctx(), batch.Key{Service: "new", ID: "b"})
		require.ErrorIs(o, err, operator.ErrNotRecorded)
		i.Paused, i.Pauses = true, []store.Pause{{Ledger: traits.Name, All: true, Kind: batch.KindUnavailable, For: time.Minute}}
		require.NoError(o, p.Show(o.ctx(), o.st, i))
		e, err := o.Explain(o.ctx(), batch.Key{Service: "new", ID: "b"})
		require.NoError(o, err)
		assert.Equal(o, operator.CauseUnknown, e.Cause)
		assert.Contains(o, e.Text, "Nothing is posted: the ledger is not reached.")
	})
}
