package sqlstore

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// KnownRow is an outcome that comes with its row.
type KnownRow struct {
	At   int
	Seq  int64
	Was  *store.Row
	Next *store.Row // the row in the answer
}

// SortKnown applies the outcomes that come with their rows. It returns the outcomes whose row
// [Advances] or [Finishes], which drivers write without reading the row, and the indexes of all
// other outcomes.
func SortKnown(outcomes []store.Outcome, applied []store.Applied, now time.Time) (advance, finish []KnownRow, rest []int) {
	named := make(map[batch.Key]int, len(outcomes)) // how often each batch is named; a batch that is named twice is read first
	for i := range outcomes {
		named[outcomes[i].Key]++
	}
	for i, o := range outcomes { // a void is about bytes that may have changed without a new version
		if o.Was != nil && o.Was.Version == o.Version && o.Row != 0 && named[o.Key] == 1 && o.Finding != store.IsVoid {
			_, applied[i] = o.Was.Apply(o, now)
			k := KnownRow{At: i, Seq: o.Row, Was: o.Was, Next: &applied[i].Row}
			switch {
			case applied[i].Result != store.Written:
			case Advances(k.Was, k.Next):
				advance = append(advance, k)
				continue
			case Finishes(k.Was, k.Next):
				finish = append(finish, k)
				continue
			}
		}
		rest = append(rest, i)
	}
	return advance, finish, rest
}

// Advances reports whether a driver can write a change by its short UPDATE, without reading the
// row. It can if the row stays open, had no receipts, and differs only in its state, in its
// version, which is one higher, and in the times of its claim, its next check, its last POST and
// its last move. A row changes so when the ledger accepts the batch and goes on executing it.
func Advances(was, next *store.Row) bool {
	return isPlainStep(was, next) && !next.Final() && next.NotBefore.Equal(was.NotBefore) && next.DoubtAttempt == was.DoubtAttempt &&
		next.DoubtSince.Equal(was.DoubtSince) && next.ResendUntil.Equal(was.ResendUntil) && next.Resends == was.Resends &&
		next.Refused == was.Refused && next.Decision == was.Decision && next.ClaimedBy == was.ClaimedBy &&
		next.ClaimTTL == was.ClaimTTL && next.Rollbacks == was.Rollbacks && next.SeenAttempt == was.SeenAttempt && next.SeenEndpoint == was.SeenEndpoint
}

// Finishes reports whether a row that had no receipts was committed and its kept columns differ
// only in the state, in the version, which is one higher, and in the times of the last POST and of
// the end.
func Finishes(was, next *store.Row) bool {
	return isPlainStep(was, next) && !was.Final() && next.Final() && next.State == batch.Committed
}

func isPlainStep(was, next *store.Row) bool {
	return next.Version == was.Version+1 && (next.Withdrawn == was.Withdrawn || next.Final()) && next.Attempt == was.Attempt && next.Spent == was.Spent && next.Failures == was.Failures &&
		next.AskedAt.Equal(was.AskedAt) && next.SettlesAt.Equal(was.SettlesAt) && next.Requeued == was.Requeued &&
		next.Error == nil && was.Error == nil && len(next.Receipts) == 0 && len(was.Receipts) == 0 && !next.OrdersSettled && !next.Quarantined
}

// Voided returns the open rows whose prepared bytes an outcome has ended. No other write of a row
// changes that column.
func Voided(all []*Stored) (void []*Stored) {
	for _, s := range all {
		if s.Was.Prepared != nil && s.Now.Prepared == nil && !s.Now.Final() {
			void = append(void, s)
		}
	}
	return void
}
