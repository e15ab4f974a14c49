package postgres

import (
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// place is the table that holds a batch's row.
type place uint8

const (
	inWaiting place = iota + 1 // the order of the steps of Save
	inAttempted
	inOutcomes
)

func placeOf(r store.Row) place {
	switch {
	case r.Final():
		return inOutcomes
	case r.Attempt > 0: // a waiting row has no columns for an attempt
		return inAttempted
	}
	return inWaiting
}

// stored is a batch as a statement of this package reads it.
type stored struct {
	sqlstore.Stored
	sqlstore.RowCols
	footprint []byte // only where a claim reads it
	size      int    // of the payload, likewise
	clock     int64  // as the statement read it
	askedWas  int64  // asked_at before a lease
	part      int    // the element of the statement's arguments that found it
	place     string // ctid in waiting_batches, where a claim read it
	closed    bool   // its lane was closed, where a claim read it
}

// unpack makes the row from the columns.
func (s *stored) unpack() {
	s.Was = s.Row()
	s.Now, s.Had = s.Was, s.RowCols.Receipts
}

// unpackWaiting makes the row of a batch that was never attempted; the table has two columns
// for it.
func (s *stored) unpackWaiting() {
	s.Was = store.NewRow()
	s.Was.Version, s.Was.Requeued = s.Version, s.Requeued
	s.Now = s.Was
}

func storedDest(s *stored) []any { return append(s.BatchCols.Dest(), s.RowCols.Dest()...) }

func lockedDest(s *stored) []any { return append(storedDest(s), &s.clock) }

func waitingDest(s *stored) []any { return append(s.BatchCols.Dest(), &s.Version, &s.Requeued) }

func outcomeDest(s *stored) []any { return append(s.BatchCols.Dest(), s.OutcomeDest()...) }
