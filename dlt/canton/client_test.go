package canton_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// A submission over sockets leads to a completion, and the completion to a status.
func TestRoad(t *testing.T) {
	for name, prepares := range map[string]bool{"prepared": true, "looking back": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.p.Advance(1_000_000)
			b := transfer("b1")
			var prepared []byte
			if prepares {
				prepared = r.prepare(b)
				assert.JSONEq(t, `{"offset":1000010}`, string(prepared))
			}
			a := attempt(b, 1, prepared)
			s, err := r.ask(a)
			require.NoError(t, err)
			assert.Equal(t, batch.ReportedUnknown, s.Reported)
			assert.Equal(t, !prepares, s.Message != "", "how far back it looked: %q", s.Message)

			require.NoError(t, r.submit(a))
			s = r.becomes(a, batch.ReportedCommitted)
			assert.Equal(t, 1, s.Attempt)
			assert.EqualValues(t, 1_000_005, r.p.Balance("Bob"))
			assert.Equal(t, 1, r.p.Count(cantontest.Executed, "b1"))
			require.NoError(t, r.p.Check(map[batch.ServiceID][]batch.ID{"Alice": {"b1"}}))
		})
	}
}
