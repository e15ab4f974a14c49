package monitor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// dueRow returns a row in a state, of a batch that was accepted once.
func dueRow(s batch.State) store.InFlight {
	return store.InFlight{
		Ref: store.Ref{Key: batch.Key{ID: "b"}, Row: 3}, Version: 8, State: s, Attempt: 1, DoubtAttempt: 1, Ended: true,
	}
}

func TestAStaleBatchIsResolved(t *testing.T) {
	tr := ledgerTraits
	tr.Resolves, tr.Stale = true, time.Minute
	f := dueRow(batch.Valid)
	f.PostedAgo = time.Minute - 1
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, monitor.Known{Seen: time.Hour, Status: status(batch.ReportedValid)}, tr, rules)))
	f.PostedAgo = time.Minute + 1
	assert.Equal(t, "wait", verdictWord(monitor.Decide(f, monitor.Known{Seen: time.Minute - 1, Status: status(batch.ReportedValid)}, tr, rules)), "by its own clock")
	f.RolledBack = true
	assert.Equal(t, "resolve", verdictWord(monitor.Decide(f, monitor.Known{Seen: time.Hour, Status: status(batch.ReportedValid)}, tr, rules)))
	for e, want := range map[dlt.Evidence]string{
		dlt.Committed: "is committed", dlt.NotCommitted: "not committed", dlt.InFlight: "wait", dlt.CannotTell: "wait",
	} {
		k := monitor.Known{Seen: time.Hour, Status: status(batch.ReportedValid), Evidence: evidence(e)}
		assert.Equal(t, want, verdictWord(monitor.Decide(f, k, tr, rules)), "%s", e)
	}
	f.PostedAgo = stuckAfter + 1
	k := monitor.Known{Seen: time.Hour, Status: status(batch.ReportedValid), Evidence: evidence(dlt.CannotTell)}
	assert.Equal(t, "undecidable", verdictWord(monitor.Decide(f, k, tr, rules)))
	risky := rules
	risky.AssumeNotCommitted = true
	assert.Equal(t, "undecidable", verdictWord(monitor.Decide(f, k, tr, risky)), "the ledger says that it has it")
}
