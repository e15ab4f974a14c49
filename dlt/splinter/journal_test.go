package splinter_test

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

var errJournal = errors.New("the journal is down")

// brokenJournal is a journal that always fails.
type brokenJournal struct{}

func (brokenJournal) LeaseStream(context.Context, string, string, time.Duration) (int64, bool, error) {
	return 0, false, errJournal
}

func (brokenJournal) AppendStream(context.Context, batch.StreamEntry) (bool, error) {
	return false, errJournal
}

func (brokenJournal) FindStream(context.Context, string, []string) (batch.StreamFound, error) {
	return batch.StreamFound{}, errJournal
}
