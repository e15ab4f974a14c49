package sawtooth_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// listBody returns the body of a POST of one payload.
func listBody(payload []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), payload)
}

// batchOfSize returns a batch whose request has n bytes.
func batchOfSize(t *testing.T, n int) batch.Batch {
	t.Helper()
	build := func(payload int) batch.Batch {
		b, err := sawtooth.Build(mustKey(t, privateKey1), "aaaaa-bbbbb::a000", sawtooth.Transaction{
			FamilyName: "sabre", FamilyVersion: "0.5", Inputs: []string{"00"}, Outputs: []string{"00"}, Payload: make([]byte, payload),
		})
		require.NoError(t, err)
		return b
	}
	// In both batches the length fields before long values have four bytes each.
	request := len(listBody(build(n - 1000).Payload))
	b := build(n - 1000 + n - request)
	require.Len(t, listBody(b.Payload), n)
	return b
}

// Each ledger has its own limit of a batch's size. Build makes batches of any size. Check of a
// Sawtooth client refuses those that its nodes answer with 413, from 10,485,760 bytes on by
// default, and Check of a Splinter client uses its own limit.
func TestSizeIsTheLedgers(t *testing.T) {
	tier.Plain(t)
	below, at := batchOfSize(t, sawtooth.DefaultMaxBody-1), batchOfSize(t, sawtooth.DefaultMaxBody)
	require.NoError(t, sawtooth.Check(below))
	node := sawtoothtest.Start(t, nil)
	c := newClient(t, node.URL(), nil)
	require.NoError(t, c.Check(below))
	for _, err := range []error{sawtooth.Check(at), c.Check(at)} {
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr)
		assert.Equal(t, "Payload", inputErr.Field)
		assert.Equal(t, "less than 10485760 bytes", inputErr.Want)
	}
	for status, b := range map[int]batch.Batch{http.StatusAccepted: below, http.StatusRequestEntityTooLarge: at} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, node.URL()+"/batches", bytes.NewReader(listBody(b.Payload)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/octet-stream")
		res, err := node.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, status, res.StatusCode)
	}

	other, err := splinter.New("http://127.0.0.1:1", nil)
	require.NoError(t, err)
	require.NoError(t, other.Check(at), "Splinter takes more")
	for limit, fits := range map[int]bool{sawtooth.DefaultMaxBody: false, sawtooth.DefaultMaxBody + 1: true} {
		other, err = splinter.New("http://127.0.0.1:1", &splinter.Options{MaxBody: limit})
		require.NoError(t, err)
		assert.Equal(t, fits, other.Check(at) == nil, "its own limit is %d", limit)
	}
}
