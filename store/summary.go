package store

import (
	"cmp"
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// SummaryKeeper keeps texts that take long to make, each under a name, so that one process makes them
// and all others read them (docs/design.md#counting-what-is-open). The texts are package operator's. A
// Runner does without it; without it each process looks at all lanes for itself.
type SummaryKeeper interface {
	// Summary returns the text under a name, and the database's clock. Where nothing is kept, all but
	// Now is zero.
	Summary(ctx context.Context, name string) (Summary, error)
	// KeepSummary replaces a summary that is at this turn still; true says that it did. A Text
	// "" leaves the text as it is. Now does not count. A name that is empty or not printable text of
	// at most [batch.MaxInstanceLen] bytes gives a [*batch.InputError].
	KeepSummary(ctx context.Context, name string, turn int64, next Summary) (bool, error)
}

// Summary is a text that a [SummaryKeeper] keeps, and whose turn it is to make it again.
type Summary struct {
	StatsTurn
	Text string    // "" where nobody has made it yet
	Now  time.Time // on the database's clock
}

// ValidSummaryName returns a [*batch.InputError] for a name that a [SummaryKeeper] refuses.
func ValidSummaryName(name string) error {
	var err error
	if name == "" {
		err = &batch.InputError{Field: "name", Want: "a name"}
	}
	return cmp.Or(err, checkWho("name", name))
}
