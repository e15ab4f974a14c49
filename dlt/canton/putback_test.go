package canton_test

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// A participant that was restored from a backup counts its offsets from an earlier end. What the
// client has read before says nothing about the new completions at the same offsets: the client
// reads again from the batch's beginning.
func TestAfterAParticipantWasPutBack(t *testing.T) {
	now, backup := newTestClient(t, nil, nil), newTestClient(t, nil, nil)
	var addressOfParticipant atomic.Pointer[url.URL]
	point := func(r *testClient) {
		u, err := url.Parse(r.participant.URL())
		require.NoError(t, err)
		addressOfParticipant.Store(u)
	}
	point(now)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(addressOfParticipant.Load()) }})
	t.Cleanup(front.Close)
	c, err := canton.New(front.URL, &canton.Options{UserID: "app", IdleWait: 40 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	r := &testClient{t: t, participant: now.participant, client: c}

	b := transfer("b")
	a := attempt(b, 1, r.prepare(b))
	r.commitTransfers(20)
	s, err := r.askStatus(a)
	require.NoError(t, err)
	require.Equal(t, batch.ReportedUnknown, s.Reported)

	point(backup)
	_, err = r.askStatus(a)
	require.ErrorContains(t, err, "OFFSET_AFTER_LEDGER_END")

	r.participant = backup.participant
	require.NoError(t, r.submit(a))
	r.waitForExecution("b")
	r.commitTransfers(30)
	require.Positive(t, backup.participant.Count(cantontest.Executed, "fill-25"), "the new end is behind the old one")
	s, err = r.askStatus(a)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedCommitted, s.Reported)
}
