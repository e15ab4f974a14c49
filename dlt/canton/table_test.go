package canton_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

const noReport batch.Reported = 0 // no answer, and an error

// errorTable has the meaning of every id in docs/ledgers/canton.md, with at least one id of each
// category: as the answer to a POST ("" is accepted) and in a completion.
var errorTable = map[string]struct {
	wantOfPost       batch.ErrorKind
	wantOfCompletion batch.Reported
}{
	// Category 1: the command may have been accepted.
	"SERVICE_NOT_RUNNING":          {batch.KindDoubt, batch.ReportedUnknown},
	"NODE_IS_PASSIVE_REPLICA":      {batch.KindDoubt, batch.ReportedUnknown},
	"SYNC_SERVICE_PASSIVE_REPLICA": {batch.KindDoubt, batch.ReportedUnknown},
	// Category 2: the command was not processed, and may be sent again.
	"PARTICIPANT_BACKPRESSURE":                    {batch.KindBusy, batch.ReportedFailed},
	"SEQUENCER_BACKPRESSURE":                      {batch.KindBusy, batch.ReportedFailed},
	"PARTICIPANT_OVERLOADED":                      {batch.KindBusy, batch.ReportedFailed},
	"THREADPOOL_OVERLOADED":                       {batch.KindBusy, batch.ReportedFailed},
	"HEAP_MEMORY_OVER_LIMIT":                      {batch.KindBusy, batch.ReportedFailed},
	"MAXIMUM_NUMBER_OF_STREAMS":                   {batch.KindBusy, batch.ReportedFailed},
	"SUBMISSION_ALREADY_IN_FLIGHT":                {batch.KindDoubt, batch.ReportedUnknown}, // an earlier attempt is in flight
	"SUBMISSION_DURING_SHUTDOWN":                  {batch.KindBusy, batch.ReportedFailed},
	"SEQUENCER_REQUEST_FAILED":                    {batch.KindBusy, batch.ReportedFailed},
	"NOT_SEQUENCED_TIMEOUT":                       {batch.KindBusy, batch.ReportedFailed},
	"MEDIATOR_SAYS_TX_TIMED_OUT":                  {batch.KindBusy, batch.ReportedFailed},
	"LOCAL_VERDICT_LOCKED_CONTRACTS":              {batch.KindBusy, batch.ReportedFailed},
	"LOCAL_VERDICT_TIMEOUT":                       {batch.KindBusy, batch.ReportedFailed},
	"LOCAL_VERDICT_LEDGER_TIME_OUT_OF_BOUND":      {batch.KindBusy, batch.ReportedFailed},
	"LOCAL_VERDICT_PREPARATION_TIME_OUT_OF_BOUND": {batch.KindBusy, batch.ReportedFailed},
	"LOCAL_VERDICT_MAX_RECORD_TIME_EXCEEDED":      {batch.KindBusy, batch.ReportedFailed}, // the participant prepares each submission again
	"NO_VIEW_WITH_VALID_RECIPIENTS":               {batch.KindBusy, batch.ReportedFailed},
	"CHOSEN_MEDIATOR_IS_INACTIVE":                 {batch.KindBusy, batch.ReportedFailed},
	// Category 3: the command may have been accepted.
	"REQUEST_TIME_OUT":          {batch.KindDoubt, batch.ReportedUnknown},
	"REQUEST_DEADLINE_EXCEEDED": {batch.KindDoubt, batch.ReportedUnknown},
	// Category 4: only the operator can find the outcome.
	"LEDGER_API_INTERNAL_ERROR": {batch.KindDoubt, noReport},
	// Categories 5 and 8: the command is refused for good.
	"SECURITY_ALERT":            {batch.KindRejected, batch.ReportedInvalid},
	"MISSING_FIELD":             {batch.KindRejected, batch.ReportedInvalid},
	"INVALID_FIELD":             {batch.KindRejected, batch.ReportedInvalid},
	"INVALID_ARGUMENT":          {batch.KindRejected, batch.ReportedInvalid},
	"MALFORMED_REQUEST":         {batch.KindRejected, batch.ReportedInvalid},
	"MAX_REQUEST_SIZE_EXCEEDED": {batch.KindRejected, batch.ReportedInvalid},
	// Categories 6, 7 and 14: refused for a reason that is not the batch's.
	"UNAUTHENTICATED":       {batch.KindMisconfigured, batch.ReportedUnknown},
	"PERMISSION_DENIED":     {batch.KindMisconfigured, batch.ReportedUnknown},
	"UNSUPPORTED_OPERATION": {batch.KindMisconfigured, batch.ReportedUnknown},
	// Category 9: refused.
	"DAML_FAILURE":                      {batch.KindRejected, batch.ReportedInvalid},
	"DAML_INTERPRETATION_ERROR":         {batch.KindRejected, batch.ReportedInvalid},
	"INCONSISTENT":                      {batch.KindRejected, batch.ReportedInvalid},
	"INVALID_DEDUPLICATION_PERIOD":      {batch.KindMisconfigured, batch.ReportedUnknown},
	"PARTICIPANT_PRUNED_DATA_ACCESSED":  {batch.KindMisconfigured, batch.ReportedUnknown},
	"NOT_CONNECTED_TO_ANY_SYNCHRONIZER": {batch.KindMisconfigured, batch.ReportedUnknown}, // an operator has to act
	"UNKNOWN_CONTRACT_SYNCHRONIZER":     {batch.KindBusy, batch.ReportedFailed},           // documented: submit the command again
	// Categories 9 and 11: refused, and the id does not say that the command is at fault.
	"LEDGER_TIME_OUTSIDE_BOUNDS":                         {batch.KindNotYet, batch.ReportedUnknown},
	"PACKAGE_NOT_VETTED_BY_RECIPIENTS":                   {batch.KindNotYet, batch.ReportedUnknown},
	"PACKAGE_SELECTION_FAILED":                           {batch.KindNotYet, batch.ReportedUnknown},
	"PACKAGE_NOT_FOUND":                                  {batch.KindNotYet, batch.ReportedUnknown},
	"UPDATE_NOT_FOUND":                                   {batch.KindNotYet, batch.ReportedUnknown},
	"SEQUENCER_NOT_ENOUGH_TRAFFIC_CREDIT":                {batch.KindNotYet, batch.ReportedUnknown},
	"SYNCHRONIZER_WITHOUT_MEDIATOR":                      {batch.KindNotYet, batch.ReportedUnknown},
	"MEDIATOR_INVALID_MESSAGE":                           {batch.KindNotYet, batch.ReportedUnknown},
	"CANNOT_PERFORM_ALL_VALIDATIONS":                     {batch.KindNotYet, batch.ReportedUnknown},
	"NOT_CONNECTED_TO_SYNCHRONIZER":                      {batch.KindNotYet, batch.ReportedUnknown},
	"SUBMISSION_SYNCHRONIZER_NOT_READY":                  {batch.KindNotYet, batch.ReportedUnknown},
	"INVALID_PRESCRIBED_SYNCHRONIZER_ID":                 {batch.KindNotYet, batch.ReportedUnknown},
	"NO_SYNCHRONIZER_ON_WHICH_ALL_SUBMITTERS_CAN_SUBMIT": {batch.KindNotYet, batch.ReportedUnknown},
	"UNKNOWN_SUBMITTERS":                                 {batch.KindNotYet, batch.ReportedUnknown},
	"UNKNOWN_INFORMEES":                                  {batch.KindNotYet, batch.ReportedUnknown},
	"SUBMITTERS_NOT_ACTIVE":                              {batch.KindNotYet, batch.ReportedUnknown},
	"INFORMEES_NOT_ACTIVE":                               {batch.KindNotYet, batch.ReportedUnknown},
	"NO_COMMON_SYNCHRONIZER":                             {batch.KindNotYet, batch.ReportedUnknown},
	"NO_SYNCHRONIZER_FOR_SUBMISSION":                     {batch.KindNotYet, batch.ReportedUnknown},
	"NOT_CONNECTED_TO_ALL_CONTRACT_SYNCHRONIZERS":        {batch.KindNotYet, batch.ReportedUnknown},
	"UNKNOWN_CONTRACT_SYNCHRONIZERS":                     {batch.KindNotYet, batch.ReportedUnknown}, // archived contracts, or synchronizers that are not connected
	"UNABLE_TO_GET_TOPOLOGY_SNAPSHOT":                    {batch.KindNotYet, batch.ReportedUnknown},
	// Category 10: a resource exists already.
	"DUPLICATE_COMMAND":      {"", batch.ReportedCommitted},
	"DUPLICATE_CONTRACT_KEY": {batch.KindRejected, batch.ReportedInvalid},
	// Category 11: a resource is missing.
	"CONTRACT_NOT_FOUND":               {batch.KindRejected, batch.ReportedInvalid},
	"LOCAL_VERDICT_INACTIVE_CONTRACTS": {batch.KindRejected, batch.ReportedInvalid},
	// Category 12: an error of reading only, which says nothing about a command.
	"OFFSET_AFTER_LEDGER_END": {batch.KindDoubt, noReport},
}

func TestErrorTableIsComplete(t *testing.T) {
	assert.Equal(t, slices.Sorted(maps.Keys(cantontest.Errors())), slices.Sorted(maps.Keys(errorTable)))
}

func TestErrorsOfThePOST(t *testing.T) {
	r := newTestClient(t, nil, nil)
	for id, want := range errorTable {
		t.Run(id, func(t *testing.T) {
			r.participant.SetFault(func(p cantontest.RequestPoint) cantontest.Fault {
				if p.Operation != cantontest.OpSubmit {
					return cantontest.Fault{}
				}
				return cantontest.Fault{Answer: cantontest.AnswerError, Error: id}
			})
			err := r.submit(attempt(transfer("post-"+id), 1, nil))
			require.Equal(t, want.wantOfPost, dlt.Kind(err), "%v", err)
			if err == nil {
				return
			}
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.NotZero(t, e.StatusCode)
			assert.NotZero(t, e.Code, "the gRPC code")
			if want.wantOfPost == batch.KindBusy && cantontest.Errors()[id] == 2 {
				assert.Equal(t, time.Second, e.RetryAfter)
			}
		})
	}
}

func TestErrorsInCompletions(t *testing.T) {
	for name, old := range map[string]bool{"3.3": true, "3.4": false} {
		t.Run(name, func(t *testing.T) {
			r := newTestClient(t, &cantontest.Options{CompleteAfter: time.Millisecond, OldDetails: old}, nil)
			for id, want := range errorTable {
				t.Run(id, func(t *testing.T) {
					r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault { return cantontest.Fault{Reject: id} })
					b := transfer("completion-" + id)
					a := attempt(b, 3, r.prepare(b))
					require.NoError(t, r.submit(a))
					require.Eventually(t, func() bool { return r.participant.Count(cantontest.Rejected, string(b.ID)) == 1 }, 30*time.Second, time.Millisecond)
					s, err := r.askStatus(a)
					assert.Equal(t, want.wantOfCompletion, s.Reported, "%v", err)
					if want.wantOfCompletion == noReport {
						require.Error(t, err)
						assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
						return
					}
					require.NoError(t, err)
					switch want.wantOfCompletion {
					case batch.ReportedFailed, batch.ReportedInvalid, batch.ReportedUnknown:
						assert.Equal(t, 3, s.Attempt, "the attempt that the submission id names")
						assert.NotEmpty(t, s.Message)
					case batch.ReportedCommitted:
						assert.Zero(t, s.Attempt, "an earlier one, and it is not known which")
					}
				})
			}
		})
	}
}

// Deduplication has these outcomes (docs/ledgers/canton.md#deduplication).
func TestDeduplication(t *testing.T) {
	once := func(t *testing.T, r *testClient, id string) {
		t.Helper()
		assert.Equal(t, 1, r.participant.Count(cantontest.Executed, id), "it took effect once")
	}
	lost := func(cantontest.RequestPoint) cantontest.Fault { return cantontest.Fault{} }
	for name, completes := range map[string]bool{"DUPLICATE_COMMAND on the POST": false, "DUPLICATE_COMMAND as completion": true} {
		t.Run(name, func(t *testing.T) {
			r := newTestClient(t, &cantontest.Options{DuplicateCompletes: completes}, nil)
			b := transfer("b")
			prepared := r.prepare(b)
			require.NoError(t, r.submit(attempt(b, 1, prepared)))
			require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b") == 1 }, 30*time.Second, time.Millisecond)
			second := attempt(b, 2, prepared)
			require.NoError(t, r.submit(second), "an earlier attempt was accepted, which is a success")
			s := r.waitForStatus(second, batch.ReportedCommitted)
			assert.Equal(t, 1, s.Attempt, "the one that took effect")
			once(t, r, "b")
		})
	}
	t.Run("DUPLICATE_COMMAND of a completion that lies further back than one looks", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		require.NoError(t, r.submit(attempt(b, 1, nil)))
		require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b") == 1 }, 30*time.Second, time.Millisecond)
		r.participant.Advance(1_000_000)
		second := attempt(b, 2, nil)
		s, err := r.askStatus(second)
		require.NoError(t, err)
		require.Equal(t, batch.ReportedUnknown, s.Reported)
		assert.Contains(t, s.Message, "offset 990011", "it says how far back it looked")
		require.NoError(t, r.submit(second))
		assert.Equal(t, batch.ReportedCommitted, r.waitForStatus(second, batch.ReportedCommitted).Reported)
		once(t, r, "b")
	})
	t.Run("DUPLICATE_COMMAND as completion without the accepted one in sight", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{DuplicateCompletes: true}, nil)
		b := transfer("b")
		require.NoError(t, r.submit(attempt(b, 1, nil)))
		require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b") == 1 }, 30*time.Second, time.Millisecond)
		r.participant.Prune(r.participant.LedgerEnd())
		second := attempt(b, 2, nil)
		require.NoError(t, r.submit(second))
		assert.Zero(t, r.waitForStatus(second, batch.ReportedCommitted).Attempt)
		once(t, r, "b")
	})
	t.Run("SUBMISSION_ALREADY_IN_FLIGHT", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{CompleteAfter: 150 * time.Millisecond}, nil)
		b := transfer("b")
		prepared := r.prepare(b)
		require.NoError(t, r.submit(attempt(b, 1, prepared)))
		second := attempt(b, 2, prepared)
		assert.Equal(t, batch.KindDoubt, dlt.Kind(r.submit(second)), "the earlier one decides")
		assert.Equal(t, 1, r.waitForStatus(second, batch.ReportedCommitted).Attempt)
		once(t, r, "b")
	})
	t.Run("INVALID_DEDUPLICATION_PERIOD", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{MaxDeduplication: time.Hour}, nil)
		err := r.submit(attempt(transfer("b"), 1, nil))
		assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
		assert.Zero(t, r.participant.Count(cantontest.Accepted, "b"))
	})
	t.Run("a rejected attempt does not block the next one", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		prepared := r.prepare(b)
		r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault {
			return cantontest.Fault{Reject: "SEQUENCER_REQUEST_FAILED"}
		})
		first := attempt(b, 1, prepared)
		require.NoError(t, r.submit(first))
		assert.Equal(t, 1, r.waitForStatus(first, batch.ReportedFailed).Attempt)
		r.participant.SetFault(lost)
		second := attempt(b, 2, prepared)
		s, err := r.askStatus(second)
		require.NoError(t, err)
		assert.Equal(t, batch.ReportedUnknown, s.Reported, "the rejection was of another attempt")
		require.NoError(t, r.submit(second))
		assert.Equal(t, 2, r.waitForStatus(second, batch.ReportedCommitted).Attempt)
		once(t, r, "b")
	})
	t.Run("the submission id plays no part", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		prepared := r.prepare(b)
		for n := 1; n <= 5; n++ { // whatever happens to the answers
			r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault {
				return cantontest.Fault{Answer: cantontest.AnswerReset, Accept: true}
			})
			assert.Equal(t, batch.KindDoubt, dlt.Kind(r.submit(attempt(b, n, prepared))))
		}
		r.participant.SetFault(nil)
		r.waitForStatus(attempt(b, 5, prepared), batch.ReportedCommitted)
		once(t, r, "b")
		var submissions []string
		for _, e := range r.participant.Journal() {
			if e.Kind == cantontest.Posted {
				submissions = append(submissions, e.SubmissionID)
			}
		}
		assert.Equal(t, []string{"b#1", "b#2", "b#3", "b#4", "b#5"}, submissions)
	})
	t.Run("another party, another command", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		require.NoError(t, r.submit(attempt(b, 1, r.prepare(b))))
		other := b
		other.Service = "Carol"
		a := attempt(other, 1, r.prepare(other))
		s, err := r.askStatus(a)
		require.NoError(t, err)
		assert.Equal(t, batch.ReportedUnknown, s.Reported)
		require.NoError(t, r.submit(a))
		r.waitForStatus(a, batch.ReportedCommitted)
		require.Eventually(t, func() bool { return r.participant.Count(cantontest.Executed, "b") == 2 }, 30*time.Second, time.Millisecond)
	})
}
