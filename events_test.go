package dltbatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// statusRequestCounter counts the status requests that pass through it.
type statusRequestCounter struct {
	http.RoundTripper
	requests atomic.Int64
}

func (a *statusRequestCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/batch_statuses") {
		a.requests.Add(1)
	}
	return a.RoundTripper.RoundTrip(r)
}

// The WebSocket of a real node's events is cut a hundred times. No verdict is missed, and the node
// is not asked more often than the events explain.
func TestEventsWhoseSocketIsDroppedAHundredTimes(t *testing.T) {
	tier.Plain(t)
	const lanes, each, drops = 10, 12, 100
	node := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 200 * time.Millisecond})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	count := &statusRequestCounter{RoundTripper: transport}
	ledger, err := sawtooth.New(node.URL(), &sawtooth.Options{Client: &http.Client{Transport: count}})
	require.NoError(t, err)
	// With this long interval, a verdict that is found by polling comes much too late.
	r := newRunner(t, memory.New(), ledger, &dltbatch.Options{PollInterval: 2 * time.Second})
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	var batches []batch.Batch
	for i := range lanes * each {
		payload, address := sawtoothtest.Set(fmt.Sprint("n", i), 1)
		b, err := sawtooth.Build(key, batch.ServiceID(fmt.Sprint("s", i%lanes)), sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: fmt.Sprint(i), Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		batches = append(batches, b)
	}
	stop := startRun(t, r)
	begin := time.Now()
	require.NoError(t, r.Add(t.Context(), batches...))
	dropped := make(chan int)
	go func() {
		n, tick := 0, time.NewTicker(5*time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); n < drops && time.Since(begin) < 2*time.Minute; <-tick.C {
			if node.Sockets() > 0 && time.Since(last) > 20*time.Millisecond {
				node.DropSockets()
				last = time.Now()
				n++
			}
		}
		dropped <- n
	}()
	for _, b := range batches {
		rec, err := r.Await(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	}
	took := time.Since(begin)
	assert.Equal(t, drops, <-dropped)
	all := time.Since(begin)
	require.NoError(t, stop())
	const perBatch = 9 // without events, the polls about one batch: their pause doubles from 10 ms to 2 s
	assert.LessOrEqual(t, count.requests.Load(), int64(all/(10*time.Millisecond))+perBatch*lanes*each)
	t.Logf("%d batches in %s, %d questions", len(batches), took, count.requests.Load())
}
