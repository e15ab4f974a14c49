package store

import (
	"math/bits"
	"strings"
)

// Abilities is a set of abilities: groups of methods that a [Store] has in addition to those of
// [Delivery], such as CanList|CanPrune. docs/stores.md says what a Runner cannot do without each
// ability, and [Abilities.Losses] says it briefly.
type Abilities uint32

// These constants are the abilities of a store. The comment of each names its methods.
const (
	CanReadFinals    Abilities = 1 << iota // Finals
	CanList                                // List
	CanCount                               // Counts
	CanPrune                               // Prune
	CanKeepPrepared                        // KeepPrepared
	CanFindWitnesses                       // Witnesses
	CanKeepTexts                           // ReadTexts, ListTexts, SwapTexts
	CanOperate                             // Cancel, Requeue, Decide, Withdraw, Acquit
	CanControl                             // Steer, Control, ControlsOf
	CanInspect                             // History, LaneHistory, Attempts, Look
	CanListActs                            // Acts
	CanCountOpen                           // CountOpen
	CanSurvey                              // Survey
	CanFind                                // Find, FindLanes
	CanKeepStreams                         // LeaseStream, AppendStream, FindStream
	CanHint                                // Tell, Hear

	noAbility // stays the last constant
)

// AllAbilities are the abilities of a store that has every method, as the stores of this module
// have.
const AllAbilities = noAbility - 1

// abilityLosses are the names of the abilities, in the order of their constants. Each has a text
// that says what a Runner lacks without the ability.
var abilityLosses = [...]struct{ name, loss string }{
	{"CanReadFinals", "each Await reads its batch by itself"},
	{"CanList", "no Idle, and no strategy that relies on the ledger's order"},
	{"CanCount", "nobody sees how many batches wait"},
	{"CanPrune", "final batches are kept for ever"},
	{"CanKeepPrepared", "no ledger that prepares batches, such as Canton and EVM chains"},
	{"CanFindWitnesses", "a resolver gets no witnesses, so more doubts need a person"},
	{"CanKeepTexts", "nothing notices that batches belong to another ledger; no dlt.Router, no list of instances, no bulk action that another process can go on with"},
	{"CanOperate", "no Cancel, Requeue, Decide, Withdraw and Acquit"},
	{"CanControl", "no pause, halt and policy"},
	{"CanInspect", "no Explain and no history"},
	{"CanListActs", "nobody sees what operators did to all batches and lanes"},
	{"CanCountOpen", "no counts of open batches"},
	{"CanSurvey", "nobody sees all lanes and what each waits for"},
	{"CanFind", "nobody finds a batch or a lane without its whole key"},
	{"CanKeepStreams", "no client that keeps its ledger's events, such as Splinter's resolver"},
	{"CanHint", "what another process did is found by the next scan, and by the next read of an Await"},
}

// Has reports whether a has all of these abilities.
func (a Abilities) Has(all Abilities) bool { return a&all == all }

// String names the abilities as Go code has them, such as "store.CanList|store.CanPrune"; the
// empty set is "none".
func (a Abilities) String() string {
	var names []string
	for rest := a & AllAbilities; rest != 0; rest &= rest - 1 {
		names = append(names, "store."+abilityLosses[bits.TrailingZeros32(uint32(rest))].name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// Loss is the part of a Runner's work that is missing if a store lacks an ability.
type Loss struct {
	Ability Abilities // exactly one ability
	Text    string
}

// Losses lists the abilities that a lacks.
func (a Abilities) Losses() []Loss {
	var lost []Loss
	for rest := AllAbilities &^ a; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros32(uint32(rest))
		lost = append(lost, Loss{1 << at, abilityLosses[at].loss})
	}
	return lost
}
