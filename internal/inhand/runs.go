package inhand

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// runs are the last claims of the runs that are out, where their lanes wait for the whole run.
// They are used under the table's lock.
type runs map[batch.ServiceID]rowVersion

// begin notes a run.
func (r runs) begin(run store.ClaimedRun) {
	last := run.Batches[len(run.Batches)-1]
	r[run.Service] = rowVersion{last.Key, last.Version}
}

// end reports whether a run has ended with this outcome.
func (r runs) end(o store.Outcome) bool {
	if o.By != batch.BySubmitter || r[o.Key.Service] != (rowVersion{o.Key, o.Version}) {
		return false
	}
	delete(r, o.Key.Service)
	return true
}
