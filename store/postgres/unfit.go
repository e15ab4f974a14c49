package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/internal/pgsettings"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// txPurpose is what a transaction is for: reads only, or writes.
type txPurpose bool

const (
	toWrite txPurpose = false
	toRead  txPurpose = true
)

// renewAfter is the least age at which an unfit connection is closed. A younger connection shows
// where the name of the server leads now, so another connection would be no better.
const renewAfter = time.Second

// isUnfit reports whether the error is about the connection and not about the call: the server
// takes no writes, or a setting breaks a promise. A connection keeps such a state: after a
// switch-over it would stay on the old server, and after a setting was corrected it would keep the
// old value.
func isUnfit(err error) bool {
	_, setting := errors.AsType[*SettingError](err)
	return setting || errors.Is(err, ErrReadOnly) || sqlState(err) == readOnlyTransaction
}

// unfitError is the error of a call whose connection was closed because it was unfit. Nothing took
// effect.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

// connChecked reports whether the last check of the connection still counts. It counts for a
// minute, because the application may share the pool and change a setting, and until another
// connection turns out to be unfit.
func (s *Store) connChecked(of *conns.Session, now time.Time) bool {
	doubted := s.connsDoubtedAt.Load()
	return !of.Standby && !of.Looked.IsZero() && now.Sub(of.Looked) < checkInterval && (doubted == nil || of.Looked.After(*doubted))
}

// checkConn checks the connection's settings if a check is due, and returns an error if the
// connection does not fit the purpose. A standby fits a call that only reads, such as a person's
// command, unless this store has seen a server that takes writes: the standby may lag behind what
// this process has written.
func (s *Store) checkConn(ctx context.Context, t *session, of *conns.Session, as txPurpose) error {
	if now := time.Now(); !s.connChecked(of, now) {
		list := pgsettings.For(pgsettings.Own, s.opts.AllowAsynchronousCommit)
		have, err := sqlstore.Query[string](ctx, t, textRowsStatement(`pg_is_in_recovery()::text, `+selectLocation+list.Columns()))
		if err != nil {
			return err
		}
		if err := wrongSetting(list, have[3:]); err != nil {
			return err
		}
		of.Standby, of.Server, of.Looked = have[0] == "true", have[1], now
		if !of.Standby {
			s.hasSeenWritable.Store(true)
			s.ownDatabase.location.Store(&location{have[1], have[2]})
		}
	}
	if of.Standby && (as == toWrite || s.hasSeenWritable.Load()) {
		return fmt.Errorf("%w: the server is a standby", ErrReadOnly)
	}
	return nil
}

// wrongSetting returns the error about the first setting that does not fit, or nil.
func wrongSetting(list pgsettings.List, have []string) error {
	for _, w := range list.Wrong(have) {
		return &SettingError{Setting: w.Name, Have: w.Have, Want: w.Want, Why: w.Why, Do: w.Do}
	}
	return nil
}

// textRowsStatement returns a statement that returns each of some texts as a row, in their order.
func textRowsStatement(list string) string { return `SELECT unnest(ARRAY[` + list + `])` }

// refusedWrites is the time since which the database refuses this store's writes, and the error.
type refusedWrites struct {
	since time.Time
	err   error
}

// noteReadOnly notes that the database refused a write.
func (s *Store) noteReadOnly(err error) {
	now := time.Now()
	s.connsDoubtedAt.Store(&now)
	since := now
	if was := s.refusedWrites.Load(); was != nil {
		since = was.since
	}
	s.refusedWrites.Store(&refusedWrites{since, err})
}

// noteWritable notes that the database has taken a write.
func (s *Store) noteWritable() {
	if s.refusedWrites.Load() != nil {
		s.refusedWrites.Store(nil)
	}
}
