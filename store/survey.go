package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// SurveyQuery selects lanes to look at; the zero value begins after the service "".
type SurveyQuery struct {
	// Services, where it is not nil, selects these lanes, each once, and no page of all.
	Services []batch.ServiceID
	// After is the last service of the call before; Start says that there was none
	// ("" is a service like any other).
	After batch.ServiceID
	Start bool
	// Limit is the largest number of lanes; it does not limit Services. Defaults to 1,000, at most
	// 1,000 without Brief.
	Limit int
	// Window is the largest number of waiting batches in the Rows of each lane. Defaults to 1, at
	// most 1,000.
	Window int
	// Cap bounds the count of waiting batches in each lane. Defaults to 1,000, at most
	// 100,000.
	Cap int
	// Brief asks only for the fields of a row that decide whether its batch waits, which costs
	// less for very many lanes. With Brief, Window is 1 and Limit at most 10,000. A store may
	// leave out the ids, budgets and footprints of Rows, their versions, the text of an error
	// without a decision, and fields that only count attempts. It may show the first waiting row
	// with the time of the batch before it, and may read some lanes later than others. Rows
	// without an id have their own Ref.Row.
	Brief bool
}

// Bounded returns the query with Limit, Window and Cap: each is the default if it is not set, and
// at most its maximum.
func (q SurveyQuery) Bounded() SurveyQuery {
	if q.Limit <= 0 {
		q.Limit = 1000
	}
	if q.Window <= 0 {
		q.Window = 1
	}
	if q.Cap <= 0 {
		q.Cap = 1000
	}
	most := 1000
	if q.Brief {
		q.Window, most = 1, 10_000
	}
	q.Limit, q.Window, q.Cap = min(q.Limit, most), min(q.Window, 1000), min(q.Cap, 100_000)
	return q
}

// Survey is a page of lanes, all of one moment, or with Brief perhaps of several.
type Survey struct {
	At         time.Time     // the database's clock, when the last lane was read
	Everything batch.Control // the control of all lanes
	Lanes      []LaneSurvey
}

// LaneSurvey is a lane with open batches, seen from its front.
type LaneSurvey struct {
	Service batch.ServiceID
	Ledger  string // the ledger that serves the lane ([TextServed]); "" if none is recorded
	// Rows are all open batches of the lane that were ever attempted, and then the first of the
	// waiting batches, both by order key, as [ClaimQuery.InOrder] takes them; perhaps without
	// their receipts.
	Rows []LaneRow
	// Waiting counts the open batches that were never claimed.
	// Where it equals the query's Cap there may be more.
	Waiting int
	Control batch.Control // the control of this lane
}
