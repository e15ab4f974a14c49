package store

import (
	"context"
	"math/bits"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// Abilities is a set of abilities: groups of methods that a [Store] has beside the eight that deliver
// batches. Each name says "can", as in CanList|CanPrune. The comment on each says which methods it
// stands for; [Abilities.Losses] says what a Runner and its user lose without it.
type Abilities uint32

// The abilities of a store.
const (
	// CanReadFinals is Finals. Without it a Runner's Await works on Get, which it calls for each batch
	// that somebody waits for, in every Options.PollInterval.
	CanReadFinals Abilities = 1 << iota
	// CanList is List. Without it a Runner's Idle gives [ErrUnsupported], and New refuses a strategy
	// that relies on the ledger's order, such as queuer.Pipelined: nobody could say which batches went
	// ahead of a batch that is sent again ([Ahead]).
	CanList
	// CanCount is Counts. A Runner does without it.
	CanCount
	// CanPrune is Prune. Without it a store keeps everything for ever: New refuses an Options.Retention
	// of more than 0, and the default is to keep.
	CanPrune
	// CanKeepPrepared is KeepPrepared. Without it New refuses a ledger that prepares batches
	// (dlt.Traits.Prepares), and a Run holds services whose route does.
	CanKeepPrepared
	// CanFindWitnesses is Witnesses. Without it resolvers get no witnesses: a resolver that needs one,
	// such as Splinter's, cannot tell more often, and a person has to decide.
	CanFindWitnesses
	// CanKeepLedgers is Ledger, Serve and KeepTraits. Without it nothing notices that a Runner of
	// another ledger, or with other traits, works on the same store; it may send batches of the first
	// ledger to the second, and ask the second about batches of the first. New refuses a dlt.Router: a
	// route that changed would do the same.
	CanKeepLedgers
	// CanOperate is Cancel, Requeue, Decide and Acquit. Without it the Runner's methods of these names
	// give [ErrUnsupported], and a batch that needs a decision holds its lane until the ledger answers
	// after all.
	CanOperate
	// CanControl is Steer, Control and ControlsOf. Without it the Runner's Pause, Resume, SetPolicy,
	// Release and Control give [ErrUnsupported], and New refuses an Options.Policy other than to
	// continue. Record then leaves out [Applied.Enforce]: a lane goes on even while its ledger executes
	// a batch and takes it back, again and again.
	CanControl
	// CanInspect is History, LaneHistory, Attempts and Look. Without it the Runner's Explain, History,
	// LaneHistory and Attempts give [ErrUnsupported], and Record keeps no reports.
	CanInspect
	// CanListActs is Acts. A Runner does without it; without it package operator's Acts gives
	// [ErrUnsupported].
	CanListActs
	// CanKeepStats is KeepInstance, RefreshStats and Stats. Without it a Runner's Stats gives
	// [ErrUnsupported].
	CanKeepStats
	// CanSurvey is Survey and Find. A Runner does without it; without it package operator's Causes, Find
	// and bulk actions give [ErrUnsupported].
	CanSurvey
	// CanKeepSummaries is Summary and KeepSummary. A Runner does without it; without it each process
	// looks at all lanes for itself.
	CanKeepSummaries
	// CanKeepBulks is AddBulk, SetBulk, GetBulk, GetBulkPart and ListBulks. A Runner does without it;
	// without it package operator's Bulks gives [ErrUnsupported], and a bulk action is carried out by
	// one process, or by a person who keeps its selection.
	CanKeepBulks
	// CanKeepStreams is LeaseStream, AppendStream and FindStream. A Runner does without it; a client
	// that wants a dlt.Journal needs one from somewhere else, or cannot prove that a batch was not
	// committed.
	CanKeepStreams

	noAbility // stays the last
)

// AllAbilities are the abilities of a store that has every method, as the stores of this module have.
const AllAbilities = noAbility - 1

// losses are the names of the abilities, in order, and what is lost without each.
var losses = [...]struct{ name, loss string }{
	{"CanReadFinals", "each Await reads its batch by itself"},
	{"CanList", "no Idle, and no strategy that relies on the ledger's order"},
	{"CanCount", "nobody sees how many batches wait"},
	{"CanPrune", "final batches are kept for ever"},
	{"CanKeepPrepared", "no ledger that prepares batches, such as Canton and EVM chains"},
	{"CanFindWitnesses", "a resolver gets no witnesses, so more doubts need a person"},
	{"CanKeepLedgers", "nothing notices that batches belong to another ledger; no dlt.Router"},
	{"CanOperate", "no Cancel, Requeue, Decide and Acquit"},
	{"CanControl", "no pause, halt and policy"},
	{"CanInspect", "no Explain and no history"},
	{"CanListActs", "nobody sees what operators did to all batches and lanes"},
	{"CanKeepStats", "no counts of what is open, and no list of instances"},
	{"CanSurvey", "nobody sees all lanes and what each waits for, nor finds a batch by its other names"},
	{"CanKeepSummaries", "each process looks at all lanes for itself"},
	{"CanKeepBulks", "no bulk action that another process can go on with"},
	{"CanKeepStreams", "no client that keeps its ledger's events, such as Splinter's resolver"},
}

// Has reports whether a has all of these abilities.
func (a Abilities) Has(all Abilities) bool { return a&all == all }

// String names the abilities as one writes them in Go: "store.CanList|store.CanPrune"; "none".
func (a Abilities) String() string {
	var names []string
	for rest := a & AllAbilities; rest != 0; rest &= rest - 1 {
		names = append(names, "store."+losses[bits.TrailingZeros32(uint32(rest))].name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// Loss is what a Runner and its user do without where a store lacks an ability.
type Loss struct {
	Ability Abilities // one
	Text    string
}

// Losses lists the abilities that a lacks.
func (a Abilities) Losses() []Loss {
	var lost []Loss
	for rest := AllAbilities &^ a; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros32(uint32(rest))
		lost = append(lost, Loss{1 << at, losses[at].loss})
	}
	return lost
}

// BatchStore is the application's half of a [Store]: the methods that an application may call itself,
// beside a Runner.
type BatchStore interface {
	Add(ctx context.Context, batches ...batch.Batch) error
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
	Counts(ctx context.Context, q CountsQuery) ([]LaneCounts, error)
	Prune(ctx context.Context, q PruneQuery) (Pruned, error)
}
