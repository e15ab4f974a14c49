// Package queuermock holds a generated mock of the strategy, for tests that
// prescribe what leaves a lane.
package queuermock

import "github.com/dltbatch/dltbatch/queuer"

var _ queuer.Strategy = (*MockStrategy)(nil)
