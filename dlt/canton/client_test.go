package canton_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// A submission over sockets leads to a completion, and the completion to a status.
func TestStatusOfASubmittedBatch(t *testing.T) {
	for name, prepares := range map[string]bool{"prepared": true, "looking back": false} {
		t.Run(name, func(t *testing.T) {
			r := newTestClient(t, nil, nil)
			r.participant.Advance(1_000_000)
			b := transfer("b1")
			var prepared []byte
			if prepares {
				prepared = r.prepare(b)
				assert.JSONEq(t, `{"offset":1000010}`, string(prepared))
			}
			a := attempt(b, 1, prepared)
			s, err := r.askStatus(a)
			require.NoError(t, err)
			assert.Equal(t, batch.ReportedUnknown, s.Reported)
			assert.Equal(t, !prepares, s.Message != "", "how far back it looked: %q", s.Message)

			require.NoError(t, r.submit(a))
			s = r.waitForStatus(a, batch.ReportedCommitted)
			assert.Equal(t, 1, s.Attempt)
			assert.EqualValues(t, 1_000_005, r.participant.Balance("Bob"))
			assert.Equal(t, 1, r.participant.Count(cantontest.Executed, "b1"))
			require.NoError(t, r.participant.Check(map[batch.ServiceID][]batch.ID{"Alice": {"b1"}}))
		})
	}
}
