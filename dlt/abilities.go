package dlt

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// Ability is something that only some clients can do. A trait declares it, and an interface
// provides it. A client that declares an ability without its interface is refused.
type Ability struct {
	Trait     string // the field of [Traits], such as "Resolves"
	Interface string // such as "dlt.Resolver"
	Says      bool   // the traits declare it
	Has       bool   // the client implements the interface
}

// Abilities lists all abilities: for each, whether t declares it and whether l has its method.
// A method that t denies is never called: the client may have it for another service, or an
// option may switch it off.
func Abilities(l Ledger, t Traits) []Ability {
	_, resolves := l.(Resolver)
	_, streams := l.(EventSource)
	_, checks := l.(Checker)
	_, prepares := l.(Preparer)
	_, lists := l.(ListSubmitter)
	return []Ability{
		{"Resolves", "dlt.Resolver", t.Resolves, resolves},
		{"Streams", "dlt.EventSource", t.Streams, streams},
		{"Checks", "dlt.Checker", t.Checks, checks},
		{"Prepares", "dlt.Preparer", t.Prepares, prepares},
		{"MaxList", "dlt.ListSubmitter", t.MaxList > 1, lists},
	}
}

// CheckAbilities returns a [*batch.InputError] if t declares an ability for which l has no
// method, or traits that contradict each other. For an ability it names the trait and the interface.
// The usual cause is a client wrapped in a struct of another type; [Wrap] keeps the methods.
func CheckAbilities(l Ledger, t Traits) error {
	for _, a := range Abilities(l, t) {
		if a.Says && !a.Has {
			return &batch.InputError{
				Field: "Traits." + a.Trait, Value: fmt.Sprintf("set by the ledger %q", t.Name),
				Want: fmt.Sprintf("a client that is a %s, and %T is none (dlt.Wrap wraps one with all that it can do)", a.Interface, l),
			}
		}
	}
	if t.AddAgainHarmless && (t.Prepares || t.ResendHarmlessFor != Forever) {
		return &batch.InputError{
			Field: "Traits.AddAgainHarmless", Value: fmt.Sprintf("set by the ledger %q", t.Name),
			Want: fmt.Sprintf("false: a batch that the store has forgotten would be sent as a new one (Prepares is %t, ResendHarmlessFor is %s)", t.Prepares, t.ResendHarmlessFor),
		}
	}
	return nil
}
