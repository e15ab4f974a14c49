package groups

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// OutcomeStore is the part of a store that the recorder writes to.
type OutcomeStore interface {
	Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error)
}

// Recorder writes the outcomes of attempts. An Accepted outcome lingers, because nothing waits for
// it, and so does every outcome after a write of many outcomes, where lingering costs little and
// saves many writes. All other outcomes are written at once. An outcome that is given up is not
// lost: its batch's claim or lease expires, and the monitor asks the ledger.
type Recorder = Writer[store.Outcome]

// NewRecorder returns a recorder; Run makes it work. done is called with every group about which
// the store has answered, lost with outcomes that were given up, and trouble for failed writes.
// done and lost must not keep the slice.
func NewRecorder(s OutcomeStore, o Settings, done func([]inhand.Recorded), lost func([]store.Outcome), trouble func(error)) *Recorder {
	var answers []store.Applied
	var recordedGroup []inhand.Recorded // the memory is used for each group
	return newWriter(o, writerRules[store.Outcome]{
		workers:   1, // the outcomes of a batch are written in their order
		key:       func(o *store.Outcome) batch.Key { return o.Key },
		mayLinger: func(o *store.Outcome) bool { return o.Finding == store.Accepted }, // an Accepted batch is not asked about before its Check
		size:      receiptBytes,
		write: func(ctx context.Context, all []store.Outcome) (err error) {
			if answers, err = s.Record(ctx, all); err == nil && len(answers) != len(all) {
				err = fmt.Errorf("%d answers to %d outcomes", len(answers), len(all))
			}
			return err
		},
		onDone: func(group []item[store.Outcome]) {
			recordedGroup = withAnswers(recordedGroup[:0], group, answers)
			done(recordedGroup)
		},
		onLost: func(all []item[store.Outcome]) {
			outcomes := make([]store.Outcome, len(all))
			for i := range all {
				outcomes[i] = all[i].value
			}
			lost(outcomes)
		},
		onTrouble: func(err error) { trouble(fmt.Errorf("record outcomes: %w", err)) },
	})
}

// receiptBytes returns the bytes of receipts, which are the only large part of an outcome.
func receiptBytes(o *store.Outcome) (n int) {
	for _, c := range o.Receipts {
		n += len(c.TransactionID) + len(c.Message) + len(c.Data)
	}
	return n
}

// withAnswers appends the outcomes of a group with the store's answers.
func withAnswers(told []inhand.Recorded, group []item[store.Outcome], answers []store.Applied) []inhand.Recorded {
	for i, a := range answers {
		it := &group[i]
		if a.Result == store.Fenced && it.wasTried && a.Row.Version == it.value.Version+1 {
			// The earlier write was committed although it failed: it raised the version itself.
			a.Result = store.Written
		}
		told = append(told, inhand.Recorded{Outcome: it.value, Applied: a, Again: it.wasTried})
	}
	return told
}
