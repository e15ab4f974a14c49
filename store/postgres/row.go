package postgres

import (
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// rowTable is the table that has a batch's row.
type rowTable uint8

const (
	waitingTable rowTable = iota + 1 // in the order of the steps of Save
	attemptedTable
	outcomesTable
)

func tableOf(r store.Row) rowTable {
	switch {
	case r.Final():
		return outcomesTable
	case r.Attempt > 0: // a waiting row has no columns for an attempt
		return attemptedTable
	}
	return waitingTable
}

// stored is a batch as a statement of this package reads it.
type stored struct {
	sqlstore.Stored
	sqlstore.RowCols
	Footprint []byte `db:"footprint"` // read only by claims
	Size      int    `db:"size"`      // the bytes of the payload; read only by claims
	Clock     int64  `db:"now"`       // the clock when the statement read the row
	AskedWas  int64  `db:"asked_was"` // asked_at before the lease
	Part      int    `db:"part"`      // the index of the statement's argument that found the row
	Place     string `db:"place"`     // ctid in waiting_batches; read only by claims
	Closed    bool   `db:"closed"`    // true if the lane was closed; read only by claims
}

// unpack fills the row from the columns.
func (s *stored) unpack() {
	s.Was = s.Row()
	s.Now, s.Had = s.Was, s.RowCols.Receipts
}

// unpackWaiting fills the row of a batch that was never attempted. Its table has two columns of
// the row.
func (s *stored) unpackWaiting() {
	s.Was = store.NewRow()
	s.Was.Version, s.Was.Requeued = s.Version, s.Requeued
	s.Now = s.Was
}
