package console

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// trouble is what instances have met that no act of the console mends.
type trouble struct {
	// What names it, with the instances. Why is the error's text; "" for none. Do is what to do,
	// outside.
	What, Why, Do string
}

// troubles of instances, those of one reason together.
func troubles(all []store.Instance) (list []trouble) {
	type reason struct {
		kind batch.ErrorKind
		why  string
	}
	var reasons []reason
	paused, live := map[reason][]string{}, 0
	for _, i := range all {
		if !i.Live {
			continue
		}
		if live++; i.Paused {
			r := reason{i.PausedKind, i.PausedWhy}
			if !slices.Contains(reasons, r) {
				reasons = append(reasons, r)
			}
			paused[r] = append(paused[r], i.Name)
		}
	}
	for _, r := range reasons {
		names := paused[r]
		who := "Instance " + names[0] + " posts nothing: "
		if n := len(names); n > 1 {
			who = fmt.Sprintf("%d of %d instances post nothing, %s among them: ", n, live, names[0])
		}
		what, do := closed(r.kind)
		list = append(list, trouble{What: who + what, Why: r.why, Do: do})
	}
	if len(list) > homeRows {
		list = list[:homeRows]
	}
	return append(list, gone(all)...)
}

// closed says why nothing is posted, and what to do.
func closed(kind batch.ErrorKind) (what, do string) {
	switch kind {
	case batch.KindMisconfigured:
		return "the ledger refuses this client.", "Nothing here mends that. Correct the credentials or the address in the application's configuration, and start it again. Nothing is lost: the batches wait."
	case batch.KindBusy:
		return "the ledger is busy.", "Nothing has to be done for a while: it goes on by itself, as soon as the ledger takes more. If it stays so, ask who runs the ledger, or add less."
	}
	return "the ledger is not reached.", "Nothing here mends that. Look whether the ledger runs and the network leads to it, or ask who runs it. It is tried again all the time, and goes on by itself. Nothing is lost: the batches wait."
}

// gone are the instances that left work behind.
func gone(all []store.Instance) (list []trouble) {
	rest := 0
	for _, i := range all {
		switch {
		case i.Live || i.Claims == 0:
		case len(list) == 5:
			rest++
		default:
			list = append(list, trouble{
				What: fmt.Sprintf("Instance %s has gone, and left %d %s under way.", i.Name, i.Claims, plural(i.Claims, "batch", "batches")),
				Why:  "It was seen last " + age(i.Unseen.Round(time.Second)) + " ago.",
				Do:   "Nothing has to be done about the batches: once their claims end, a running instance asks the ledger about them. Find out why it has gone, in its log, and start it again.",
			})
		}
	}
	if rest > 0 {
		list = append(list, trouble{What: fmt.Sprintf("%d more instances have gone, and left batches under way.", rest)})
	}
	return list
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
