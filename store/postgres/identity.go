package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrReplaced is a [store.Warning], which stands for an hour: the database is not the database
// that this process has used before, or has lost data. A dump was restored, the database was
// renamed or copied, or a standby was promoted. The error says what has changed. A part of the
// work may be forgotten: compare with the ledger.
var ErrReplaced = errors.New("dltbatch: the database was replaced")

// replacedErrorLifetime is how long Upkeep reports that the database was replaced.
const replacedErrorLifetime = time.Hour

// identityParts are the parts of a database's identity that a plain restart does not change, each
// with the statement that reads it. A part that the server does not let this role read is not
// compared.
var identityParts = [...]struct{ name, query string }{
	{"the oid of the database", `SELECT d.oid::text FROM pg_database d WHERE d.datname = current_database()`},
	{"the oid of the table {waiting_batches}", `SELECT '{waiting_batches}'::regclass::oid::text`},
	{"the server's system identifier", `SELECT system_identifier::text FROM pg_control_system()`},
	{"the server's timeline", `SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END`},
}

// identity is what this process has seen of the database's identity.
type identity struct {
	mu           sync.Mutex
	incarnation  int64 // the last incarnation; 0 while none was read
	parts        [len(identityParts)]string
	nextReadAt   time.Time // when the parts are read again
	changedAt    time.Time // the time of the last change
	changedParts []string  // the parts that have changed since then
}

// identityReadInterval is how often the parts are read, besides after each change of the
// incarnation.
const identityReadInterval = time.Minute

// checkIncarnation takes an incarnation that a statement has read. If it differs from the one
// before, this process forgets all that it remembers of the database, and the transaction begins
// again, because a pooler may have moved the connection to another server.
func (s *Store) checkIncarnation(incarnation int64) error {
	d := &s.identity
	d.mu.Lock()
	was := d.incarnation
	d.incarnation = incarnation
	if was != incarnation {
		d.nextReadAt = time.Time{}
	}
	d.mu.Unlock()
	if was == 0 || was == incarnation {
		return nil
	}
	now := time.Now()
	s.connsDoubtedAt.Store(&now)
	s.commitMemory.requireCheck()
	s.positions.Forget()
	s.addedBatches.Forget()
	s.schemaCheckedUntil.Store(nil)
	s.hasReadUnknown.Store(true)
	s.cannotReadLocks.Store(false)
	return errOtherServer
}

// readIdentity reads the parts from time to time, and notes those that have changed.
func (s *Store) readIdentity(ctx context.Context) {
	d := &s.identity
	now := time.Now()
	d.mu.Lock()
	due := d.incarnation != 0 && !now.Before(d.nextReadAt)
	if due {
		d.nextReadAt = now.Add(identityReadInterval)
	}
	d.mu.Unlock()
	if !due {
		return
	}
	var have [len(identityParts)]string
	for i, part := range identityParts {
		have[i] = s.readText(ctx, s.sql(part.query))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var changed []string
	for i, part := range identityParts {
		switch was := d.parts[i]; {
		case have[i] == "":
			continue
		case was != "" && was != have[i]:
			changed = append(changed, fmt.Sprintf("%s was %s, and is %s", s.sql(part.name), was, have[i]))
		}
		d.parts[i] = have[i]
	}
	if len(changed) > 0 {
		d.changedAt, d.changedParts = now, changed
	}
}

// readText returns the one value of a statement outside of a transaction; "" after an error.
func (s *Store) readText(ctx context.Context, statement string) (value string) {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return ""
	}
	defer c.Release()
	rows, err := c.Query(ctx, statement)
	if err != nil {
		return ""
	}
	for rows.Next() && err == nil {
		err = rows.Scan(&value)
	}
	if errors.Join(err, rows.Err(), rows.Close()) != nil {
		return ""
	}
	return value
}

// replacedError returns an error for some time after the database was replaced, and nil otherwise.
func (s *Store) replacedError(now time.Time) error {
	d := &s.identity
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.changedParts) == 0 || now.Sub(d.changedAt) >= replacedErrorLifetime {
		return nil
	}
	return fmt.Errorf("%w, %s ago: %s", ErrReplaced, now.Sub(d.changedAt).Round(time.Minute), strings.Join(d.changedParts, "; "))
}
