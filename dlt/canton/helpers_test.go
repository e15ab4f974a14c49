package canton_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// testClient is a client with its participant.
type testClient struct {
	t           *testing.T
	participant *cantontest.Participant
	client      *canton.Client
}

func newTestClient(t *testing.T, po *cantontest.Options, co *canton.Options) *testClient {
	t.Helper()
	r := &testClient{t: t, participant: cantontest.Start(t, po)}
	r.client = r.newClient(co)
	return r
}

// newClient returns a client as another process has it.
func (r *testClient) newClient(co *canton.Options) *canton.Client {
	r.t.Helper()
	var options canton.Options
	if co != nil {
		options = *co
	}
	if options.UserID == "" && options.Token == nil {
		options.UserID = "app"
	}
	if options.IdleWait == 0 {
		options.IdleWait = 40 * time.Millisecond
	}
	c, err := canton.New(r.participant.URL(), &options)
	require.NoError(r.t, err)
	r.t.Cleanup(c.CloseIdleConnections)
	return c
}

func transfer(id string, ts ...cantontest.Transfer) batch.Batch {
	if len(ts) == 0 {
		ts = []cantontest.Transfer{{To: "Bob", Amount: 5}}
	}
	return batch.Batch{ID: batch.ID(id), Service: "Alice", Payload: cantontest.Payload(ts...)}
}

// prepare does the engine's work before the first POST: it returns the prepared bytes.
func (r *testClient) prepare(b batch.Batch) []byte {
	r.t.Helper()
	out, err := r.client.Prepare(r.t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	require.NoError(r.t, err)
	return out
}

func attempt(b batch.Batch, n int, prepared []byte) batch.Attempt {
	return batch.Attempt{Key: b.Key(), Number: n, Payload: b.Payload, Prepared: prepared}
}

func (r *testClient) submit(a batch.Attempt) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	return r.client.Submit(ctx, a)
}

// askStatus asks for the status as the monitor does, without the payload.
func (r *testClient) askStatus(a batch.Attempt) (batch.Status, error) {
	a.Payload = nil
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	out, err := r.client.BatchStatuses(ctx, a.Service, []batch.Attempt{a})
	if len(out) == 0 {
		return batch.Status{}, err
	}
	require.Len(r.t, out, 1)
	require.Equal(r.t, a.ID, out[0].ID)
	return out[0], err
}

// waitForStatus asks until the batch is reported as want.
func (r *testClient) waitForStatus(a batch.Attempt, want batch.Reported) batch.Status {
	r.t.Helper()
	var last batch.Status
	require.Eventually(r.t, func() bool {
		s, err := r.askStatus(a)
		require.NoError(r.t, err)
		last = s
		return s.Reported == want
	}, 30*time.Second, 5*time.Millisecond, "it is to become %s", want)
	return last
}
