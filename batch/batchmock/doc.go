// Package batchmock holds generated mocks of what an application may implement: the
// observer, and the builder of auto-batching.
package batchmock

import "github.com/dltbatch/dltbatch/batch"

var (
	_ batch.Observer     = (*MockObserver)(nil)
	_ batch.Builder      = (*MockBuilder)(nil)
	_ batch.RoundBuilder = (*MockRoundBuilder)(nil)
)
