package native

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowReader is a reader whose Read takes some time.
type slowReader struct {
	readBegun chan struct{}
	isRead    bool
}

func (s *slowReader) Read(p []byte) (int, error) {
	close(s.readBegun)
	time.Sleep(20 * time.Millisecond)
	s.isRead = true
	return len(p), nil
}

// After a COPY has returned nobody reads the caller's payloads: the COPY waits for a Read that is
// under way, and further Reads return nothing.
func TestNothingIsReadAfterACopy(t *testing.T) {
	s := &slowReader{readBegun: make(chan struct{})}
	u := &copySource{data: s}
	type result struct {
		n   int
		err error
	}
	read := make(chan result)
	go func() {
		n, err := u.Read(make([]byte, 3))
		read <- result{n, err}
	}()
	<-s.readBegun
	u.end()
	require.True(t, s.isRead, "the COPY has returned while its rows are read")
	assert.Equal(t, result{3, nil}, <-read)
	n, err := u.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.ErrorIs(t, err, io.ErrClosedPipe)
}
