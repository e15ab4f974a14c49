package canton_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
)

// The opening of a stream ends with an error if the participant accepts the connection and never
// answers.
func TestOpeningOfAStreamEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	c, err := canton.New("http://"+l.Addr().String(), &canton.Options{UserID: "app"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = c.Events(ctx, []batch.ServiceID{"Alice"}, func(dlt.Event) error { return nil })
	require.NoError(t, ctx.Err())
	assert.Error(t, err)
}
