package engine

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// BadOption returns the error about an option's value.
func BadOption(field string, value any, want string) error {
	return fmt.Errorf("options: %w", &batch.InputError{Field: "Options." + field, Value: fmt.Sprint(value), Want: want})
}

// Bad returns the error about an argument of New.
func Bad(field, value, want string) error {
	return fmt.Errorf("new: %w", &batch.InputError{Field: field, Value: value, Want: want})
}

// checkService refuses a service that its ledger cannot serve with these options or with this
// store.
func checkService(st store.Store, traits dlt.Traits, o Options) error {
	if err := traits.Validate(); err != nil {
		return err
	}
	if err := checkNeeds(st, traits); err != nil {
		return err
	}
	if err := checkOrder(traits, o); err != nil {
		return err
	}
	if err := checkOneRun(traits, o); err != nil {
		return err
	}
	if err := checkRenewal(traits, o); err != nil {
		return err
	}
	return checkRetention(traits, o)
}

// checkRenewal refuses a ClaimTTL that has no time for both requests of an attempt, if the
// ledger's client prepares before each POST. A Prepare that takes its whole time would leave none
// for the POST: the batch would be put back and claimed again, for ever and without an error.
func checkRenewal(traits dlt.Traits, o Options) error {
	if least := 2*o.RequestTimeout + o.Margin; traits.Prepares && traits.Renews && o.ClaimTTL <= least {
		return BadOption("ClaimTTL", o.ClaimTTL, fmt.Sprintf("more than twice RequestTimeout (%s) and its margin (%s): the ledger %q prepares before each POST (dlt.Traits.Renews)",
			o.RequestTimeout, o.Margin, traits.Name))
	}
	return nil
}

// checkOrder refuses a strategy that relies on the order of submission if the ledger does not
// keep it.
func checkOrder(traits dlt.Traits, o Options) error {
	if o.Strategy.ReliesOnOrder && !traits.KeepsOrder {
		return BadOption("Strategy", o.Strategy.Name,
			fmt.Sprintf("one that does not rely on the order of submission, such as queuer.Serial: the ledger %q does not say that it keeps it (dlt.Traits.KeepsOrder)", traits.Name))
	}
	return nil
}

// checkOneRun refuses a strategy with several runs of a lane at once if the ledger prepares each
// batch from the bytes of the batches before it: two runs would get the same bytes.
func checkOneRun(traits dlt.Traits, o Options) error {
	if traits.Prepares && traits.PreparesInOrder && traits.MaxInFlightPerService != 1 && !o.Strategy.OneRun() {
		return BadOption("Strategy", o.Strategy.Name,
			fmt.Sprintf("one with a single run of a lane at a time, such as queuer.Serial or queuer.Pipelined: the ledger %q prepares each batch by those before it (dlt.Traits.PreparesInOrder)", traits.Name))
	}
	return nil
}

// checkRetention refuses a retention that removes batches which may still be sent again.
func checkRetention(traits dlt.Traits, o Options) error {
	if h := traits.ResendHarmlessFor; o.Retention > 0 && h != dlt.Forever && o.Retention <= h {
		return BadOption("Retention", o.Retention, fmt.Sprintf("more than the ResendHarmlessFor of the ledger %q (%s)", traits.Name, h))
	}
	return nil
}

// checkStore refuses a store that lacks an ability which the options or the ledger's traits
// need.
func checkStore(s store.Store, o Options, t dlt.Traits) error {
	can := s.Abilities()
	switch {
	case o.Strategy.ReliesOnOrder && !can.Has(store.CanList):
		return lackError(s, store.CanList, fmt.Sprintf("Options.Strategy (%s), which relies on the order of submission", o.Strategy.Name))
	case o.Policy != batch.PolicyContinue && !can.Has(store.CanControl):
		return lackError(s, store.CanControl, fmt.Sprintf("Options.Policy (%s)", o.Policy))
	case o.Policy == batch.PolicyQuarantine && !can.Has(store.CanOperate):
		return lackError(s, store.CanOperate, fmt.Sprintf("Options.Policy (%s)", o.Policy))
	case o.Retention > 0 && !can.Has(store.CanPrune):
		return lackError(s, store.CanPrune, fmt.Sprintf("Options.Retention (%s)", o.Retention))
	}
	return checkNeeds(s, t)
}

// checkNeeds refuses a store that lacks an ability which the ledger's traits need.
func checkNeeds(s store.Store, t dlt.Traits) error {
	can := s.Abilities()
	switch {
	case t.Prepares && !can.Has(store.CanKeepPrepared):
		return lackError(s, store.CanKeepPrepared, fmt.Sprintf("the ledger %q, which prepares batches (dlt.Traits.Prepares)", t.Name))
	case t.Routed && !can.Has(store.CanKeepTexts):
		return lackError(s, store.CanKeepTexts, "a ledger that is made of several (dlt.Traits.Routed)")
	}
	return nil
}

// lackError returns the error about a store without an ability that something else needs.
func lackError(s store.Store, ability store.Abilities, by string) error {
	return Bad("store", fmt.Sprintf("%T", s), fmt.Sprintf("a store with %s, for %s", ability, by))
}
