package position

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Memory remembers, for one process, where the open work of a database begins, so that no call
// reads the finished rows in front of it; it knows only what statements of this process saw, and
// forgets everything when the database is another one ([Memory.Forget]), and each part when it
// says so. To forget is always right, and only slow.
type Memory struct {
	Lanes    *Lanes    // where a claim begins to read each lane
	Listed   Listed    // the lanes that have a row to lock
	Scan     Scan      // whether a scan of all lanes finds any, and takes long
	UnderWay UnderWay  // where the monitor's rows begin
	Removed  []Removed // where Prune begins to look for old rows, of each kind
}

// NewMemory returns a memory of at most limit lanes ([NewLanes]), and of rows of all kinds
// that Prune removes.
func NewMemory(limit, kinds int) *Memory {
	m := &Memory{Lanes: NewLanes(limit), Removed: make([]Removed, kinds)}
	m.Listed.seed = maphash.MakeSeed()
	m.Listed.forget()
	return m
}

// Forget forgets everything. The parts that hold facts about one incarnation of the database also
// notice another one by themselves, since a statement of the one before may still report.
func (m *Memory) Forget() {
	m.Lanes.Forget()
	m.Listed.forget()
	m.Scan.forget()
	m.UnderWay.forget()
	m.ForgetRemoved()
}

// ForgetRemoved makes the next reads of old rows begin at the beginning: a transaction that
// removes may have been rolled back, and then the rows that it had found are still there.
func (m *Memory) ForgetRemoved() {
	for i := range m.Removed {
		m.Removed[i].forget()
	}
}

// Scan remembers how the last scans for lanes went. Its zero value has seen none.
type Scan struct {
	Found        atomic.Bool // the last one found lanes
	carefulUntil atomic.Pointer[time.Time]
}

// carefulFor is how long, after a long scan, remembered lanes are looked at one by one.
const carefulFor = 5 * time.Minute

// TookLong records that a scan of all lanes took too long.
func (s *Scan) TookLong(now time.Time) {
	until := now.Add(carefulFor)
	s.carefulUntil.Store(&until)
}

// Careful reports whether remembered lanes are to be looked at one by one, since a scan of all
// lanes took too long a while ago.
func (s *Scan) Careful(now time.Time) bool {
	until := s.carefulUntil.Load()
	return until != nil && now.Before(*until)
}

func (s *Scan) forget() { s.carefulUntil.Store(nil) }
