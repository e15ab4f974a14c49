package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// noCopyPool is a script whose connections return an error for COPY.
type noCopyPool struct {
	scriptedServer
	copyCalls int
}

func (n *noCopyPool) Acquire(context.Context) (conns.Conn, error) {
	return &noCopyConn{&scriptConn{server: &n.scriptedServer}, n}, nil
}

type noCopyConn struct {
	*scriptConn
	pool *noCopyPool
}

func (c *noCopyConn) Copy(context.Context, string, io.Reader) error {
	c.pool.copyCalls++
	return stateError(featureNotSupported)
}

// If the server refuses COPY, as with row-level security, the batches are inserted.
func TestWhereNothingMayBeCopied(t *testing.T) {
	n := &noCopyPool{scriptedServer: scriptedServer{answers: map[string][][]any{}}}
	list := make([]batch.Batch, minCopyRows)
	for i := range list {
		list[i] = batch.Batch{Service: "s", ID: batch.ID(fmt.Sprint(i)), Payload: []byte("a")}
		n.answers["ON CONFLICT"] = append(n.answers["ON CONFLICT"], []any{int64(1001 + i)}) // the rows that the second try inserts
	}
	s, _, err := Over(n, nil)
	require.NoError(t, err)
	soon := time.Now().Add(time.Minute)
	s.schemaCheckedUntil.Store(&soon)
	require.NoError(t, s.Add(t.Context(), list...))
	assert.Equal(t, 1, n.copyCalls)
	n.answers["ON CONFLICT"] = nil
	for i := range list {
		n.answers["ON CONFLICT"] = append(n.answers["ON CONFLICT"], []any{int64(2001 + i)})
	}
	require.NoError(t, s.Add(t.Context(), list...))
	assert.Equal(t, 1, n.copyCalls, "the next one does not try")
}

// The rows for COPY are the same bytes however large the reads are. Each Read returns as much as
// it can.
func TestCopiedRows(t *testing.T) {
	row := func(b []byte, i int) []byte { return append(b, bytes.Repeat([]byte{byte('a' + i)}, 3*i)...) }
	want := copyHead
	for i := range 20 {
		want += string(row(nil, i))
	}
	want += copyEnd
	require.NoError(t, iotest.TestReader(&copyReader{rowCount: 20, appendRow: row}, []byte(want)))
	for size := 1; size < 2*len(want); size++ {
		var got []byte
		for c := (&copyReader{rowCount: 20, appendRow: row}); ; {
			p := make([]byte, size)
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.True(t, n == size || len(got) == len(want), "%d bytes of %d", n, size)
		}
		assert.Equal(t, want, string(got))
	}
}
