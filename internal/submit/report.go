package submit

import (
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// reportOf returns the report to keep of an attempt with outcome o. It is nil if the attempt was
// accepted and no earlier attempt failed or is in doubt.
func reportOf(c store.Claim, o store.Outcome, err error, took time.Duration) *batch.Report {
	if err == nil && c.Failures == 0 && !c.Doubt {
		return nil
	}
	r := &batch.Report{Attempt: c.Attempt, Took: took}
	if o.Error != nil {
		r.Kind, r.Text = dlt.Kind(err), o.Error.Message
	}
	if e, ok := errors.AsType[*dlt.Error](err); ok {
		r.StatusCode, r.Code, r.Endpoint = e.StatusCode, e.Code, e.Endpoint
	}
	return r
}
