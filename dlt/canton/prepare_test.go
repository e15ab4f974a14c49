package canton_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

func TestPreparedThatCannotBeRead(t *testing.T) {
	r := newTestClient(t, nil, nil)
	good := transfer("good")
	prepared := r.prepare(good)
	require.NoError(t, r.submit(attempt(good, 1, prepared)))
	r.waitForExecution("good")
	for _, text := range []string{"", "x", "{}", `{"offset":-1}`, `{"offset":"7"}`, `[1]`, "null"} {
		out, err := r.client.BatchStatuses(t.Context(), "Alice", []batch.Attempt{
			{Key: batch.Key{Service: "Alice", ID: "bad"}, Number: 1, Prepared: []byte(text)}, {Key: good.Key(), Number: 1, Prepared: prepared},
		})
		require.Error(t, err, "%q", text)
		require.Len(t, out, 1, "the other one is answered")
		assert.Equal(t, batch.ReportedCommitted, out[0].Reported)
	}
}

func TestPrepareErrors(t *testing.T) {
	for name, c := range map[string]struct {
		fault cantontest.Fault
		want  batch.ErrorKind
	}{
		"lost":      {cantontest.Fault{Answer: cantontest.AnswerReset}, batch.KindUnavailable},
		"garbage":   {cantontest.Fault{Answer: cantontest.AnswerPage}, batch.KindUnavailable},
		"timeout":   {cantontest.Fault{Answer: cantontest.AnswerTimeout}, batch.KindUnavailable},
		"not ready": {cantontest.Fault{Answer: cantontest.AnswerError, Error: "SERVICE_NOT_RUNNING"}, batch.KindUnavailable},
		"busy":      {cantontest.Fault{Answer: cantontest.AnswerError, Error: "PARTICIPANT_OVERLOADED"}, batch.KindBusy},
		"refused":   {cantontest.Fault{Answer: cantontest.AnswerError, Error: "PERMISSION_DENIED"}, batch.KindMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestClient(t, nil, nil)
			r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault { return c.fault })
			out, err := r.client.Prepare(t.Context(), batch.Attempt{Key: transfer("b").Key(), Number: 1})
			assert.Nil(t, out)
			assert.Equal(t, c.want, dlt.Kind(err), "%v", err)
		})
	}
}
