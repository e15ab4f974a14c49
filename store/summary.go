package store

import (
	"cmp"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Summary is a text that a store keeps ([CanKeepSummaries]), and whose turn it is to make it again.
type Summary struct {
	StatsTurn
	Text string    // "" where nobody has made it yet
	Now  time.Time // on the database's clock
}

// ValidSummaryName returns a [*batch.InputError] for a name that KeepSummary refuses.
func ValidSummaryName(name string) error {
	var err error
	if name == "" {
		err = &batch.InputError{Field: "name", Want: "a name"}
	}
	return cmp.Or(err, checkWho("name", name))
}
