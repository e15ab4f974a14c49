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
	Footprint []byte `db:"footprint"` // only where a claim reads it
	Size      int    `db:"size"`      // of the payload, likewise
	Clock     int64  `db:"now"`       // as the statement read it
	AskedWas  int64  `db:"asked_was"` // asked_at before a lease
	Part      int    `db:"part"`      // the element of the statement's arguments that found it
	Place     string `db:"place"`     // ctid in waiting_batches, where a claim read it
	Closed    bool   `db:"closed"`    // its lane was closed, where a claim read it
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
