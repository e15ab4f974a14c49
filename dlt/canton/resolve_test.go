package canton_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func TestEvidence(t *testing.T) {
	tier.Plain(t)
	const lateArrival, decidedWithin = 100 * time.Millisecond, 400 * time.Millisecond
	r := newTestClient(t, nil, &canton.Options{LateArrival: lateArrival, DecidedWithin: decidedWithin, LookBack: 5})
	b := transfer("b")
	prepared := r.prepare(b)
	resolve := func(c *canton.Client, b batch.Batch, prepared []byte, ended time.Duration) dlt.Evidence {
		t.Helper()
		found, err := c.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 1, prepared), Since: ended, Ended: ended})
		require.NoError(t, err)
		return found
	}
	assert.True(t, r.client.Traits("Alice").Resolves)
	assert.Equal(t, dlt.InFlight, resolve(r.client, b, prepared, lateArrival+decidedWithin-1))
	assert.Equal(t, dlt.NotCommitted, resolve(r.client, b, prepared, lateArrival+decidedWithin))
	assert.Equal(t, dlt.CannotTell, resolve(r.client, transfer("unprepared"), nil, time.Hour), "its completion may lie further back")

	silent := r.newClient(nil)
	assert.Equal(t, dlt.CannotTell, resolve(silent, b, prepared, time.Hour), "nothing was declared")

	require.NoError(t, r.submit(attempt(b, 1, prepared)))
	r.waitForExecution("b")
	r.participant.Advance(100)
	assert.Equal(t, dlt.Committed, resolve(r.client, b, prepared, time.Hour))

	pruned := transfer("pruned")
	prepared = r.prepare(pruned)
	require.NoError(t, r.submit(attempt(pruned, 1, prepared)))
	r.waitForExecution("pruned")
	r.participant.Prune(r.participant.LedgerEnd())
	assert.Equal(t, dlt.CannotTell, resolve(r.client, pruned, prepared, time.Hour))
}

// The completion of a later attempt proves that the attempts before it had no effect: otherwise
// the later one would not have been accepted. No option is needed for this proof.
func TestEvidenceOfALaterAttempt(t *testing.T) {
	reject := func(id string) cantontest.Fault { return cantontest.Fault{Reject: id} }
	lost := cantontest.Fault{Answer: cantontest.AnswerReset}
	refused := cantontest.Fault{Answer: cantontest.AnswerError, Error: "DAML_FAILURE"}
	for _, c := range []struct {
		name   string
		faults []cantontest.Fault // one for each attempt
		want   dlt.Evidence
	}{
		{"the last one is rejected", []cantontest.Fault{lost, reject("INCONSISTENT")}, dlt.NotCommitted},
		{"the last one is rejected, and may be tried again", []cantontest.Fault{lost, reject("LOCAL_VERDICT_LOCKED_CONTRACTS")}, dlt.NotCommitted},
		{"the last one is rejected for the set-up", []cantontest.Fault{lost, reject("SEQUENCER_NOT_ENOUGH_TRAFFIC_CREDIT")}, dlt.NotCommitted},
		{"the last one is rejected, and that is not definite", []cantontest.Fault{lost, {Reject: "INCONSISTENT", Definite: "false"}}, dlt.CannotTell},
		{"one before the last is rejected, and the last refused at the door", []cantontest.Fault{reject("INCONSISTENT"), refused}, dlt.CannotTell},
		{"one before the last is rejected", []cantontest.Fault{lost, reject("INCONSISTENT"), lost}, dlt.CannotTell},
		{"the last one is refused at the door", []cantontest.Fault{lost, refused}, dlt.CannotTell},
		{"the last one is not clear", []cantontest.Fault{lost, reject("REQUEST_TIME_OUT")}, dlt.CannotTell},
		{"the last one is the operator's", []cantontest.Fault{lost, reject("LEDGER_API_INTERNAL_ERROR")}, dlt.CannotTell},
		{"an earlier one took effect", []cantontest.Fault{{Answer: cantontest.AnswerReset, Accept: true}, refused}, dlt.Committed},
		{"the last one was a duplicate", []cantontest.Fault{{Answer: cantontest.AnswerReset, Accept: true}, {}}, dlt.Committed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTestClient(t, &cantontest.Options{CompleteAfter: time.Millisecond, Fault: func(p cantontest.RequestPoint) cantontest.Fault {
				if p.Operation == cantontest.OpSubmit && p.Try <= len(c.faults) {
					return c.faults[p.Try-1]
				}
				return cantontest.Fault{}
			}}, nil)
			b := transfer("b")
			prepared := r.prepare(b)
			for n := range c.faults {
				_ = r.submit(attempt(b, n+1, prepared))
				require.Eventually(t, func() bool {
					over := r.participant.Count(cantontest.Executed, "b") + r.participant.Count(cantontest.Rejected, "b")
					return over == r.participant.Count(cantontest.Accepted, "b")
				}, 30*time.Second, time.Millisecond)
			}
			for _, asked := range []bool{false, true} { // completions that were read before count, too
				if asked {
					_, _ = r.askStatus(attempt(b, len(c.faults), prepared))
				}
				found, err := r.client.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, len(c.faults), prepared), Ended: time.Hour})
				require.NoError(t, err)
				assert.Equal(t, c.want, found)
			}
			unprepared := r.newClient(&canton.Options{LookBack: 1})
			r.participant.Advance(100)
			found, err := unprepared.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, len(c.faults), nil), Ended: time.Hour})
			require.NoError(t, err)
			assert.Equal(t, dlt.CannotTell, found, "its completions may lie further back")
		})
	}
}
