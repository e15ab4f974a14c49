package store

import (
	"github.com/dltbatch/dltbatch/batch"
)

// FindQuery asks for batches by a text that a person has: an id, a caller's key, or the beginning
// of one of them.
type FindQuery struct {
	// ID or DataChangeID is the text to find; the other is empty.
	ID           batch.ID
	DataChangeID string
	// Begins is true if only the beginning is given.
	Begins bool
	// Service, with a whole DataChangeID, selects this lane only.
	Service *batch.ServiceID
	// Limit is how many batches at most. Defaults to 10, at most 100.
	Limit int
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q FindQuery) Bounded() FindQuery {
	q.Limit = boundedLimit(q.Limit, 10, 100)
	return q
}

// Validate reports whether the query makes sense. The error is a [*batch.InputError].
func (q FindQuery) Validate() error {
	switch {
	case (q.ID == "") == (q.DataChangeID == ""):
		return &batch.InputError{Field: "FindQuery", Want: "an ID or a DataChangeID"}
	case q.Service != nil && (q.ID != "" || q.Begins):
		return &batch.InputError{Field: "FindQuery.Service", Value: batch.Excerpt(string(*q.Service), 64), Want: "no service, except with a whole DataChangeID"}
	}
	return nil
}

// FindLanesQuery asks for lanes by name, or by its beginning.
type FindLanesQuery struct {
	Name   batch.ServiceID
	Begins bool // true if Name is only the beginning of the names; every name begins with ""
	// Limit is how many lanes at most. Defaults to 10, at most 100.
	Limit int
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q FindLanesQuery) Bounded() FindLanesQuery {
	q.Limit = boundedLimit(q.Limit, 10, 100)
	return q
}
