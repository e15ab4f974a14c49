package sawtoothtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// BenchmarkSubmit is one client that posts one batch after the other, each
// signature of which is verified, or taken on trust.
func BenchmarkSubmit(b *testing.B) {
	for _, skip := range []bool{false, true} {
		b.Run(fmt.Sprintf("skip=%t", skip), func(b *testing.B) {
			n := Start(b, &Options{SkipVerify: skip, PoolLimit: 1 << 30})
			bodies := make([][]byte, b.N)
			for i := range bodies {
				bodies[i] = marshal(b, &pb.BatchList{Batches: []*pb.Batch{mk(b, call(Set("x", int64(i))))}})
			}
			transport := &http.Transport{}
			b.Cleanup(transport.CloseIdleConnections)
			c := &http.Client{Transport: transport}
			b.ResetTimer()
			for i := range bodies {
				res, err := c.Post(n.URL()+"/batches", "application/octet-stream", bytes.NewReader(bodies[i]))
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(b, err)
				require.NoError(b, res.Body.Close())
				require.Equal(b, http.StatusAccepted, res.StatusCode)
			}
		})
	}
}
