package store

import "github.com/dltbatch/dltbatch/batch"

// Served is a service and the name of the ledger that is to serve it.
type Served struct {
	Service batch.ServiceID
	Ledger  string
}
