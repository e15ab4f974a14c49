package wire_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A request gets the traceparent of its context, and keeps a traceparent that the application has
// set.
func TestSendTraceParent(t *testing.T) {
	h := http.Header{}
	wire.SendTraceParent(t.Context(), h)
	wire.SendTraceParent(dlt.WithTraceParent(t.Context(), ""), h)
	assert.Empty(t, h)
	ctx := dlt.WithTraceParent(t.Context(), traceParent)
	wire.SendTraceParent(ctx, h)
	assert.Equal(t, traceParent, h.Get("Traceparent"))
	h = http.Header{"Traceparent": {"my own"}}
	wire.SendTraceParent(ctx, h)
	assert.Equal(t, http.Header{"Traceparent": {"my own"}}, h)
}

// An answer of exactly the limit is read completely, and a longer one is an error, not a shorter
// answer.
func TestBoundedReader(t *testing.T) {
	whole, err := io.ReadAll(&wire.BoundedReader{R: strings.NewReader("1234"), Left: 4})
	assert.NoError(t, err)
	assert.Equal(t, "1234", string(whole))
	b := &wire.BoundedReader{R: iotest.OneByteReader(strings.NewReader("123456")), Left: 4}
	_, err = io.ReadAll(b)
	assert.ErrorIs(t, err, wire.ErrTooLarge)
	_, err = b.Read(make([]byte, 1))
	assert.ErrorIs(t, err, wire.ErrTooLarge, "read once more")
}
