package postgres

import (
	"database/sql"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// batchCols are the columns of a batch that never change, as the rules need them.
type batchCols struct {
	seq              int64
	headerSignature  string
	serviceID        string
	createdAt        int64
	dataChangeID     string
	budgetAttempts   int
	budgetEveryTry   bool
	encodedFootprint []byte // only where a claim reads it
}

// dest takes the columns of colsBatch.
func (c *batchCols) dest() []any {
	return []any{&c.seq, &c.headerSignature, &c.serviceID, &c.createdAt, &c.dataChangeID, &c.budgetAttempts, &c.budgetEveryTry}
}

func (c *batchCols) key() batch.Key {
	return batch.Key{Service: batch.ServiceID(c.serviceID), ID: batch.ID(c.headerSignature)}
}

func (c *batchCols) ref() store.Ref { return store.Ref{Key: c.key(), Row: c.seq} }

func (c *batchCols) budget() batch.Budget {
	return batch.Budget{Attempts: c.budgetAttempts, EveryTry: c.budgetEveryTry}
}

// rowCols is a store.Row: columns that a table lacks stay zero.
type rowCols struct {
	state, version, attempt, spent, failures                                int64
	claimExpires, notBefore, nextCheck, askedAt, lastPost, settlesAt, final int64
	doubtAttempt, doubtSince, resendUntil, resends                          int64
	refused, requeued, settled                                              bool
	kind                                                                    sql.NullString
	message, decision                                                       string
	receipts                                                                int
	prepared                                                                []byte
	claimedBy                                                               string
	atEnd, quarantined                                                      bool
	claimTTL, ttlAttempt, firstClaimed, rollbacks, seenAttempt              int64
	seenEndpoint                                                            string
}

// dest takes the columns of colsRow.
func (c *rowCols) dest() []any {
	return []any{
		&c.state, &c.version, &c.attempt, &c.spent, &c.failures, &c.claimExpires, &c.notBefore, &c.nextCheck, &c.askedAt,
		&c.lastPost, &c.settlesAt, &c.doubtAttempt, &c.doubtSince, &c.resendUntil, &c.resends, &c.refused, &c.requeued,
		&c.kind, &c.message, &c.decision, &c.receipts, &c.prepared, &c.claimedBy, &c.atEnd,
		&c.claimTTL, &c.ttlAttempt, &c.firstClaimed, &c.rollbacks, &c.seenAttempt, &c.seenEndpoint,
	}
}

// outcomeDest takes the columns of colsOutcome.
func (c *rowCols) outcomeDest() []any {
	return []any{
		&c.state, &c.version, &c.attempt, &c.spent, &c.failures, &c.askedAt, &c.lastPost, &c.settlesAt, &c.final,
		&c.requeued, &c.kind, &c.message, &c.receipts, &c.settled, &c.quarantined,
	}
}

func (c *rowCols) row() store.Row {
	r := store.Row{
		State: batch.State(c.state), Version: c.version, Attempt: int(c.attempt), Spent: int(c.spent), Failures: int(c.failures),
		ClaimExpires: sqlstore.FromMicro(c.claimExpires), NotBefore: sqlstore.FromMicro(c.notBefore),
		NextCheck: sqlstore.FromMicro(c.nextCheck), AskedAt: sqlstore.FromMicro(c.askedAt), LastPost: sqlstore.FromMicro(c.lastPost),
		SettlesAt: sqlstore.FromMicro(c.settlesAt), FinalAt: sqlstore.FromMicro(c.final), DoubtAttempt: int(c.doubtAttempt),
		DoubtSince: sqlstore.FromMicro(c.doubtSince), ResendUntil: sqlstore.FromMicro(c.resendUntil), Resends: int(c.resends),
		Refused: c.refused, Requeued: c.requeued, OrdersSettled: c.settled, Decision: c.decision,
		ClaimedBy: c.claimedBy, AtEnd: c.atEnd, Quarantined: c.quarantined,
		ClaimTTL: sqlstore.ClaimTTL(c.claimTTL, c.ttlAttempt, c.attempt), FirstClaimed: sqlstore.FromMicro(c.firstClaimed),
		Rollbacks: int(c.rollbacks), SeenAttempt: int(c.seenAttempt), SeenEndpoint: c.seenEndpoint,
	}
	if c.kind.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.kind.String), Message: c.message}
	}
	if len(c.prepared) > 0 {
		r.Prepared = c.prepared
	}
	return r
}

// place is the table that holds a batch's row.
type place uint8

const (
	inWaiting place = iota + 1
	inAttempted
	inOutcomes
)

func placeOf(r store.Row) place {
	switch {
	case r.Final():
		return inOutcomes
	case r.Attempt > 0: // at the end of its lane, too: a waiting row has no columns for an attempt
		return inAttempted
	}
	return inWaiting
}

// stored is a loaded batch, and its present row.
type stored struct {
	batchCols
	rowCols
	clock    int64  // as the statement read it
	askedWas int64  // before a lease
	place    string // ctid in waiting_batches, where a claim read it
	closed   bool   // its lane was closed, where a claim read it

	now        store.Row
	was        store.Row // as in the database; its receipts are loaded
	inDatabase int       // how many transaction_receipts there are
}

// unpack makes the row from the columns.
func (s *stored) unpack() {
	s.was = s.row()
	s.now, s.inDatabase = s.was, s.rowCols.receipts
}

// unpackWaiting makes the row of a batch that was never attempted; the table has two columns
// for it.
func (s *stored) unpackWaiting() {
	s.was = store.NewRow()
	s.was.Version, s.was.Requeued = s.version, s.requeued
	s.now = s.was
}

// checkWaiting makes sure that these two columns suffice for the row.
func checkWaiting(r store.Row) error {
	r.Error, r.Receipts = nil, nil // not comparable; requeuing clears them
	want := store.NewRow()
	want.Version, want.Requeued = r.Version, r.Requeued
	if fmt.Sprint(r) != fmt.Sprint(want) {
		return fmt.Errorf("a row that was never attempted, and is %+v", r)
	}
	return nil
}

func (s *stored) record() batch.Record {
	r := s.now.Record(s.key())
	r.Budget, r.DataChangeID, r.CreatedAt = s.budget(), s.dataChangeID, sqlstore.FromMicro(s.createdAt)
	return r
}

func storedDest(s *stored) []any { return append(s.batchCols.dest(), s.rowCols.dest()...) }

func lockedDest(s *stored) []any { return append(storedDest(s), &s.clock) }

func waitingDest(s *stored) []any { return append(s.batchCols.dest(), &s.version, &s.requeued) }

func outcomeDest(s *stored) []any { return append(s.batchCols.dest(), s.outcomeDest()...) }
