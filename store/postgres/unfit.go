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

// purpose says what a transaction is for.
type purpose bool

const (
	toWrite purpose = false
	toRead  purpose = true
)

// renewAfter is how old a connection is before it is closed because it is unfit. A younger one
// shows what the server, or the name of the server, leads to now: another would be no better.
const renewAfter = time.Second

// isUnfit reports whether the connection is the trouble, and not the call: the server takes no
// writes, or a setting breaks a promise. A connection keeps such a state. After a switch-over it
// would keep to the old server, and after the mend of a setting to the old value.
func isUnfit(err error) bool {
	_, setting := errors.AsType[*SettingError](err)
	return setting || errors.Is(err, ErrReadOnly) || sqlState(err) == readOnlyTransaction
}

// unfitError is the error of a call whose connection was closed because it was unfit. Nothing took
// effect.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

// connChecked reports whether the last check of the connection still counts: it was less than a
// minute ago, because the application may share the pool and change a setting, and no connection
// has turned out to be unfit since.
func (s *Store) connChecked(of *conns.Session, now time.Time) bool {
	doubted := s.doubted.Load()
	return !of.Standby && !of.Looked.IsZero() && now.Sub(of.Looked) < checkInterval && (doubted == nil || of.Looked.After(*doubted))
}

// checkConn looks at the connection's settings where that is due, and refuses a connection that
// does not fit the purpose. A standby fits a call that only reads, such as a person's command,
// unless this store has seen a server that takes writes: then the standby may lag behind what this
// process has written.
func (s *Store) checkConn(ctx context.Context, t *session, of *conns.Session, as purpose) error {
	if now := time.Now(); !s.connChecked(of, now) {
		list := pgsettings.For(pgsettings.Own, s.o.AllowAsynchronousCommit)
		have, err := sqlstore.Query[string](ctx, t, eachText(`pg_is_in_recovery()::text, `+selectLocation+list.Columns()))
		if err != nil {
			return err
		}
		if err := wrongSetting(list, have[3:]); err != nil {
			return err
		}
		of.Standby, of.Server, of.Looked = have[0] == "true", have[1], now
		if !of.Standby {
			s.writable.Store(true)
			s.home.at.Store(&location{have[1], have[2]})
		}
	}
	if of.Standby && (as == toWrite || s.writable.Load()) {
		return fmt.Errorf("%w: the server is a standby", ErrReadOnly)
	}
	return nil
}

// wrongSetting returns the error about the first setting that does not fit.
func wrongSetting(list pgsettings.List, have []string) error {
	for _, w := range list.Wrong(have) {
		return &SettingError{Setting: w.Name, Have: w.Have, Want: w.Want, Why: w.Why, Do: w.Do}
	}
	return nil
}

// eachText returns a statement that finds each of some texts as a row, in their order.
func eachText(list string) string { return `SELECT unnest(ARRAY[` + list + `])` }

// readOnly is since when the database refuses this store's writes, and its error.
type readOnly struct {
	since time.Time
	err   error
}

// noteReadOnly remembers that the database refused a write.
func (s *Store) noteReadOnly(err error) {
	now := time.Now()
	s.doubted.Store(&now)
	since := now
	if was := s.readOnly.Load(); was != nil {
		since = was.since
	}
	s.readOnly.Store(&readOnly{since, err})
}

// noteWritable remembers that the database has taken a write.
func (s *Store) noteWritable() {
	if s.readOnly.Load() != nil {
		s.readOnly.Store(nil)
	}
}
