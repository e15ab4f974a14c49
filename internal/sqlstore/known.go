package sqlstore

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Advances reports whether the short UPDATE of a driver can write a change without reading the row:
// the row stays open, had no receipts, and differs only in its state, its version, which is one
// higher, and the times of its claim, its next check and its last POST. A row changes so when the
// ledger accepts the batch and goes on executing it.
func Advances(was, next *store.Row) bool {
	return same(was, next) && !next.Final() && next.NotBefore.Equal(was.NotBefore) && next.DoubtAttempt == was.DoubtAttempt &&
		next.DoubtSince.Equal(was.DoubtSince) && next.ResendUntil.Equal(was.ResendUntil) && next.Resends == was.Resends &&
		next.Refused == was.Refused && next.Decision == was.Decision && next.ClaimedBy == was.ClaimedBy && next.AtEnd == was.AtEnd &&
		next.ClaimTTL == was.ClaimTTL && next.FirstClaimed.Equal(was.FirstClaimed) && next.Rollbacks == was.Rollbacks &&
		next.SeenAttempt == was.SeenAttempt && next.SeenEndpoint == was.SeenEndpoint
}

// Finishes reports whether a row that had no receipts was committed, and the kept columns
// differ only in the state, the version, which is one higher, and the times of the last POST
// and of the end.
func Finishes(was, next *store.Row) bool {
	return same(was, next) && !was.Final() && next.Final() && next.State == batch.Committed
}

func same(was, next *store.Row) bool {
	return next.Version == was.Version+1 && next.Attempt == was.Attempt && next.Spent == was.Spent && next.Failures == was.Failures &&
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
