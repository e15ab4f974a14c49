package position

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Memory remembers, for one process, where the open work of a database begins, so that no call
// reads the final rows before it. It knows only what statements of this process have seen. It
// forgets everything when the database is another one ([Memory.Forget]), and each part when the
// part's rules say so. To forget is always right, and only costs time.
type Memory struct {
	Lanes        *Lanes        // where a claim begins to read each lane
	LanesWithRow LanesWithRow  // the lanes that have a row to lock
	Scan         Scan          // whether a scan finds any lanes, and takes long
	UnderWay     UnderWay      // where the monitor's rows begin
	Removed      []RemovedRows // for each kind, where Prune begins to look for old rows
}

// NewMemory returns a memory of at most limit lanes ([NewLanes]), and of rows of all kinds
// that Prune removes.
func NewMemory(limit, kinds int) *Memory {
	m := &Memory{Lanes: NewLanes(limit), Removed: make([]RemovedRows, kinds)}
	m.LanesWithRow.seed = maphash.MakeSeed()
	m.LanesWithRow.forget()
	return m
}

// Forget forgets everything. The parts that depend on an incarnation of the database also notice
// another incarnation by themselves, since a statement that ran before may still report.
func (m *Memory) Forget() {
	m.Lanes.Forget()
	m.LanesWithRow.forget()
	m.Scan.forget()
	m.UnderWay.forget()
	m.ForgetRemoved()
}

// ForgetRemoved makes the next reads of old rows begin at the beginning. It is for a transaction
// of Prune that may have been rolled back, whose rows are then still there.
func (m *Memory) ForgetRemoved() {
	for i := range m.Removed {
		m.Removed[i].forget()
	}
}

// Scan remembers how the last scans for lanes went. The zero value means that there was none.
type Scan struct {
	Found        atomic.Bool // true if the last scan found lanes
	carefulUntil atomic.Pointer[time.Time]
}

// carefulPeriod is how long, after a long scan, each remembered lane is looked up by itself.
const carefulPeriod = 5 * time.Minute

// TookLong records that a scan of all lanes took too long.
func (s *Scan) TookLong(now time.Time) {
	until := now.Add(carefulPeriod)
	s.carefulUntil.Store(&until)
}

// IsCareful reports whether each remembered lane is to be looked up by itself, because a scan of
// all lanes took too long less than carefulPeriod ago.
func (s *Scan) IsCareful(now time.Time) bool {
	until := s.carefulUntil.Load()
	return until != nil && now.Before(*until)
}

func (s *Scan) forget() { s.carefulUntil.Store(nil) }
