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

// rig is a client with its participant.
type rig struct {
	t *testing.T
	p *cantontest.Participant
	c *canton.Client
}

func newRig(t *testing.T, po *cantontest.Options, co *canton.Options) *rig {
	t.Helper()
	r := &rig{t: t, p: cantontest.Start(t, po)}
	r.c = r.client(co)
	return r
}

// client returns a client as another process has it.
func (r *rig) client(co *canton.Options) *canton.Client {
	r.t.Helper()
	var o canton.Options
	if co != nil {
		o = *co
	}
	if o.UserID == "" && o.Token == nil {
		o.UserID = "app"
	}
	if o.IdleWait == 0 {
		o.IdleWait = 40 * time.Millisecond
	}
	c, err := canton.New(r.p.URL(), &o)
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
func (r *rig) prepare(b batch.Batch) []byte {
	r.t.Helper()
	out, err := r.c.Prepare(r.t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	require.NoError(r.t, err)
	return out
}

func attempt(b batch.Batch, n int, prepared []byte) batch.Attempt {
	return batch.Attempt{Key: b.Key(), Number: n, Payload: b.Payload, Prepared: prepared}
}

func (r *rig) submit(a batch.Attempt) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	return r.c.Submit(ctx, a)
}

// ask asks for the status as the monitor does, without the payload.
func (r *rig) ask(a batch.Attempt) (batch.Status, error) {
	a.Payload = nil
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	out, err := r.c.BatchStatuses(ctx, a.Service, []batch.Attempt{a})
	if len(out) == 0 {
		return batch.Status{}, err
	}
	require.Len(r.t, out, 1)
	require.Equal(r.t, a.ID, out[0].ID)
	return out[0], err
}

// becomes asks until the batch is reported as want.
func (r *rig) becomes(a batch.Attempt, want batch.Reported) batch.Status {
	r.t.Helper()
	var last batch.Status
	require.Eventually(r.t, func() bool {
		s, err := r.ask(a)
		require.NoError(r.t, err)
		last = s
		return s.Reported == want
	}, 30*time.Second, 5*time.Millisecond, "it is to become %s", want)
	return last
}
