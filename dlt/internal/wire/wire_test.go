package wire_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A request has a traceparent only where its context does, and the application's own header stays.
func TestSendTraceParent(t *testing.T) {
	h := http.Header{}
	wire.SendTraceParent(t.Context(), h)
	wire.SendTraceParent(dlt.WithTraceParent(t.Context(), ""), h)
	assert.Empty(t, h)
	ctx := dlt.WithTraceParent(t.Context(), parent)
	wire.SendTraceParent(ctx, h)
	assert.Equal(t, parent, h.Get("Traceparent"))
	h = http.Header{"Traceparent": {"my own"}}
	wire.SendTraceParent(ctx, h)
	assert.Equal(t, http.Header{"Traceparent": {"my own"}}, h)
}
