package splinter_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
)

var anyAttempt = batch.Attempt{Key: batch.Key{Service: "aaaaa-bbbbb::a000", ID: "x"}, Number: 1, Payload: []byte("abc")}

// A server that refuses the client's certificate has not processed the request, although TLS 1.3
// lets the client send it before the refusal comes.
func TestARefusedClientCertificateIsNoDoubt(t *testing.T) {
	var served atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		w.WriteHeader(http.StatusAccepted)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		refused := 0
		c, err := splinter.New(s.URL, &splinter.Options{TLSConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: version}})
		require.NoError(t, err)
		for range 5 {
			err := c.Submit(t.Context(), anyAttempt)
			require.Error(t, err)
			if dlt.Kind(err) == batch.KindMisconfigured {
				refused++
			}
		}
		assert.Positive(t, refused, "a reset may be faster than the alert, but not always")
	}
	assert.Zero(t, served.Load())
}

// lostResponses is a transport that sends a request and loses the answer.
type lostResponses struct{ sendCount atomic.Int32 }

func (l *lostResponses) RoundTrip(*http.Request) (*http.Response, error) {
	l.sendCount.Add(1)
	return nil, errors.New("the answer was lost")
}

// A user's transport may contain another transport that does not call the hooks of a trace.
func TestARegisteredProtocolProvesNothing(t *testing.T) {
	var l lostResponses
	transport := &http.Transport{IdleConnTimeout: time.Second}
	transport.RegisterProtocol("http", &l)
	c, err := splinter.New("http://node:8085", &splinter.Options{Client: &http.Client{Transport: transport}})
	require.NoError(t, err)
	err = c.Submit(t.Context(), anyAttempt)
	assert.EqualValues(t, 1, l.sendCount.Load())
	assert.Equal(t, batch.KindDoubt, dlt.Kind(err), "%v", err)
}
