package store

import "github.com/dltbatch/dltbatch/batch"

// Served is a service and the name of the ledger that is to serve it.
type Served struct {
	Service batch.ServiceID
	Ledger  string
}

// Serving returns the ledger that serves a service without a recorded one. It is the
// database's ledger where the service has batches attempted before ledgers were recorded per
// service, and else the wanted ledger.
func Serving(wanted, databases string, attempted bool) string {
	if attempted && databases != "" {
		return databases
	}
	return wanted
}

// ServedReach is how many first batches of a service are searched for an attempted one, so
// that the cost does not grow with the waiting batches.
const ServedReach = 500
