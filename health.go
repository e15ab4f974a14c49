package dltbatch

import "github.com/dltbatch/dltbatch/health"

// Health returns how this Runner is doing. It does no I/O.
func (r *Runner) Health() health.Health { return r.engine.Health() }
