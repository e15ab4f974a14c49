package inhand

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// runs has the last claim of each run under way whose lane waits for the whole run. The table's
// lock guards it.
type runs map[batch.ServiceID]rowVersion

// begin adds a run.
func (r runs) begin(run store.ClaimedRun) {
	last := run.Batches[len(run.Batches)-1]
	r[run.Service] = rowVersion{last.Key, last.Version}
}

// end reports whether this outcome ends a run.
func (r runs) end(o store.Outcome) bool {
	if o.By != batch.BySubmitter || r[o.Key.Service] != (rowVersion{o.Key, o.Version}) {
		return false
	}
	delete(r, o.Key.Service)
	return true
}
