package evm_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
)

// With a provider that compresses every answer, the client reads a refusal, and the limit of an
// answer's size holds.
func TestProviderThatCompresses(t *testing.T) {
	zipped := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.Bytes()
	}
	answer := zipped([]byte(`{"jsonrpc":"2.0","id":1,"result":"0x1"}`))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	c, err := evm.New(server.URL, 1337, &evm.Options{MaxResponse: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	var yielded int
	stop := assert.AnError
	err = c.Events(t.Context(), nil, func(dlt.Event) error { yielded++; return stop })
	require.ErrorIs(t, err, stop, "the number of the last block was read")
	assert.Equal(t, 1, yielded)

	answer = zipped([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":429,"message":"too many requests"}}`))
	err = c.Events(t.Context(), nil, func(dlt.Event) error { return stop })
	assert.Equal(t, batch.KindBusy, dlt.Kind(err), "%v", err)

	answer = zipped(bytes.Repeat([]byte(" "), 64<<20)) // made before the request, whose time is limited
	err = c.Events(t.Context(), nil, func(dlt.Event) error { return stop })
	require.ErrorContains(t, err, "larger than")
}
