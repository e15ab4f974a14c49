package explain

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/internal/legible"
)

// ByInstance reports whether an instance moves a batch with this cause.
func ByInstance(c batch.Cause) bool {
	switch c {
	case batch.CauseReady, batch.CauseDelayed, batch.CauseBehind, batch.CauseInFlight, batch.CauseClaimed, batch.CauseInDoubt,
		batch.CauseLedger, batch.CauseSettling:
		return true
	}
	return false
}

// ByLedger reports whether a batch with this cause goes on only once instances post again, while
// none posts because of the ledger's answers of this kind. A ledger that cannot be reached cannot
// be asked either.
func ByLedger(c batch.Cause, kind batch.ErrorKind) bool {
	switch c {
	case batch.CauseInDoubt, batch.CauseLedger, batch.CauseSettling:
		return kind != batch.KindMisconfigured && kind != batch.KindBusy
	}
	return ByInstance(c) // a claimed batch finds out whether the ledger takes batches again
}

// WithCause returns the text of an explanation with a sentence on why no instance moves the batch.
func WithCause(e batch.Explanation, why string) string {
	switch {
	case e.Cause == batch.CauseReady:
		return legible.Sentences(e.State.String()+": nothing in its lane holds it", why)
	case e.Cause == batch.CauseClaimed && why == incident.NoInstance:
		return legible.Sentences(ClaimedAlone(e), why)
	case e.Text == "":
		return legible.Sentences(Sentence(e), why)
	}
	return legible.Sentences(e.Text, why)
}
