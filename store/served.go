package store

import "github.com/dltbatch/dltbatch/batch"

// Served is a service and the name of the ledger that is to serve it.
type Served struct {
	Service batch.ServiceID
	Ledger  string
}

// Serving returns which ledger serves a service for which none was recorded: the
// database's, where the service has batches that were attempted before this was recorded
// of each service, and else the one that is wanted.
func Serving(wanted, databases string, attempted bool) string {
	if attempted && databases != "" {
		return databases
	}
	return wanted
}

// ServedReach is how many of a service's first batches are looked at to find one that was
// attempted, so that the cost does not grow with what waits.
const ServedReach = 500
