package console

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// actAgree is the only act of the console that is not a [batch.Action].
const actAgree batch.Action = "agree"

// actOffer is an act on a page: its form, or the reason why it is not possible.
type actOffer struct {
	Do           batch.Action
	Title, About string
	// Not is why the act cannot be done now; "" if it can.
	Not string
	// Fields are hidden inputs of the form: the row and the version that the person saw.
	Fields []formField
	// Word has to be typed to confirm; "" for none. Typed is true if the word is the chosen value.
	Word  string
	Typed bool
	// Choices are the values of the field Choose, with the label Legend.
	Choose, Legend string
	Choices        []formChoice
}

type formField struct{ Name, Value string }

// confirmWord returns the word that has to be typed before an act; "" if none has to.
func confirmWord(do batch.Action, all bool, ruling string) string {
	switch do {
	case batch.ActionCancel, batch.ActionRequeue, batch.ActionWithdraw, batch.ActionRelease, actAgree:
		return string(do)
	case batch.ActionDecide:
		return ruling
	case batch.ActionPause, batch.ActionResume:
		if all {
			return string(do)
		}
	}
	return ""
}

// batchOffers returns the acts upon a batch, the remedy first. The store's own rules decide which
// are possible. withdraws is true if the ledger can prevent a batch under way from taking effect.
func (v *visit) batchOffers(l store.Look, remedy batch.Remedy, withdraws bool) []actOffer {
	rec := l.Record
	fields := []formField{
		{"service", string(rec.Service)}, {"id", string(rec.ID)}, {"version", strconv.FormatInt(rec.Version, 10)},
		{"created", rec.CreatedAt.UTC().Format(time.RFC3339Nano)},
	}
	_, cancel := l.Row.Cancel(l.At, "")
	_, requeue := l.Row.Requeue(l.At, store.Requeue{})
	_, acquit := l.Row.Acquit()
	decide := actOffer{
		Do: batch.ActionDecide, Title: "Decide", Typed: true, Choose: "ruling", Legend: "What did you find on the ledger?",
		About: "Ends a doubt, once you have read the ledger. A wrong ruling executes the batch twice, or loses it.",
	}
	possible := false
	decide.Choices = rulingChoices(nil)
	for i, ruling := range batch.Rulings() {
		_, err := l.Row.Decide(l.At, ruling, "")
		possible = possible || err == nil
		if err != nil {
			decide.Not = whyNot(err)
		}
		decide.Choices[i].Not = whyNot(err)
	}
	if possible {
		decide.Not = ""
	}
	offers := []actOffer{
		{
			Do: batch.ActionRequeue, Title: "Requeue", Not: whyNot(requeue), Word: confirmWord(batch.ActionRequeue, false, ""),
			About: "Sends the batch again, at its old place in the lane. A halted lane stays halted.",
		},
		{
			Do: batch.ActionCancel, Title: "Cancel", Not: whyNot(cancel), Word: confirmWord(batch.ActionCancel, false, ""),
			About: "Ends the batch, which is then never sent.",
		},
		decide,
		{
			Do: batch.ActionAcquit, Title: "Acquit", Not: whyNot(acquit),
			About: "Ends the quarantine. The batch stays final as it is, and retention may remove it.",
		},
	}
	if withdraws {
		_, err := l.Row.Withdraw(l.At)
		offers = append(offers, actOffer{
			Do: batch.ActionWithdraw, Title: "Withdraw", Not: whyNot(err), Word: confirmWord(batch.ActionWithdraw, false, ""),
			About: "Asks the ledger to keep the batch from taking effect. What takes effect first decides: the batch, or what is sent to exclude it.",
		})
	}
	return readyOffers(v.deniedReason, offers, fields, map[batch.Remedy]batch.Action{batch.RemedyDecide: batch.ActionDecide, batch.RemedyRequeue: batch.ActionRequeue}[remedy])
}

// laneOffers returns the acts upon a lane, or upon everything.
func (v *visit) laneOffers(c batch.Control, r operator.Settings) []actOffer {
	fields := []formField{{"service", string(c.Service)}, {"version", strconv.FormatInt(c.Version, 10)}}
	what, first := "this lane", batch.Action("")
	if c.All {
		fields = append(fields, formField{"all", "1"})
		what = "any lane"
	}
	paused, notPaused := "", "It is not paused."
	if !c.PausedAt.IsZero() {
		paused, notPaused, first = "It is paused already.", "", batch.ActionResume
	}
	offers := []actOffer{
		{
			Do: batch.ActionPause, Title: "Pause", Not: paused, Word: confirmWord(batch.ActionPause, c.All, ""),
			About: "Lets nothing leave " + what + ", in the whole cluster. Batches under way are still followed.",
		},
		{
			Do: batch.ActionResume, Title: "Resume", Not: notPaused, Word: confirmWord(batch.ActionResume, c.All, ""),
			About: "Ends the pause. Lanes that were paused one by one stay paused when everything is resumed.",
		},
	}
	if c.All {
		return readyOffers(v.deniedReason, offers, fields, first)
	}
	release := actOffer{
		Do: batch.ActionRelease, Title: "Release", Word: confirmWord(batch.ActionRelease, false, ""),
		About: "Ends the halt: the batch that halted the lane is left behind, and the batches after it go on.",
	}
	if c.HaltedAt.IsZero() {
		release.Not = "It is not halted."
	} else if first == "" {
		first = batch.ActionRelease
	}
	policy := actOffer{
		Do: batch.ActionSetPolicy, Title: "Set the policy", Choose: "policy", Legend: "When one of its batches ends invalid or rejected",
		About: "Says how the lane goes on behind a bad batch.",
	}
	for _, p := range [...]struct {
		policy batch.Policy
		title  string
	}{
		{batch.PolicyDefault, "default: as the instance that records the end has it"},
		{batch.PolicyContinue, "continue: the lane goes on"},
		{batch.PolicyHalt, "halt: the lane stands until it is released"},
		{batch.PolicyQuarantine, "quarantine: the lane goes on, and the batch is set aside"},
	} {
		policy.Choices = append(policy.Choices, formChoice{Value: p.policy.String(), Title: p.title, On: p.policy == c.Policy})
	}
	offers = append(offers, release, policy)
	if r.Disagree {
		agree := actOffer{
			Do: actAgree, Title: "Agree on the settings", Word: confirmWord(actAgree, false, ""),
			About: "Says that no process relies on the other settings any more. A wrong word may send a requeued batch too early.",
		}
		fields = append(fields, formField{"ledger", r.Ledger}, formField{"kept", r.Kept})
		offers = append(offers, agree)
	}
	return readyOffers(v.deniedReason, offers, fields, first)
}

// askUnknown asks for a typed word before any act upon a lane that the store does not know,
// because its name may be a typing error.
func (v *visit) askUnknown(ctx context.Context, lane batch.ServiceID, offers []actOffer) error {
	known, err := v.desk.KnowsLane(ctx, lane)
	if known || err != nil {
		return err
	}
	for i := range offers {
		offers[i].Word = string(offers[i].Do)
		offers[i].About += " Nobody knows this lane: it has no batches, no orders and no control. Is its name right?"
	}
	return nil
}

// readyOffers adds the version fields to the offers, disables them for a visitor who may only read
// (denied says why), and moves the act first to the front.
func readyOffers(denied string, offers []actOffer, fields []formField, first batch.Action) []actOffer {
	for i := range offers {
		offers[i].Fields = fields
		if denied != "" {
			offers[i].Not = denied
		}
	}
	slices.SortStableFunc(offers, func(a, b actOffer) int {
		switch {
		case a.Do == first && b.Do != first:
			return -1
		case b.Do == first && a.Do != first:
			return 1
		}
		return 0
	})
	return offers
}
