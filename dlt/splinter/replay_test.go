package splinter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node's replay and its echoes come independently. A replay has ended when two echoes follow
// each other with no receipt in between; one echo alone proves nothing.
func TestAReplayEndsWithTwoEchoesInARow(t *testing.T) {
	id := func(digit string) string { return strings.Repeat(digit, idLen) }
	receipts := []string{id("a"), id("b"), id("c"), id("d")}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for i := 0; ; i++ { // one receipt before each echo, as long as there are any
			kind, text, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if i < len(receipts) {
				_ = c.Write(r.Context(), websocket.MessageText, []byte(`{"id":"`+receipts[i]+`"}`))
			}
			if c.Write(r.Context(), kind, text) != nil {
				return
			}
		}
	}))
	defer s.Close()
	c, err := New(s.URL, nil)
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	p, err := c.locate("aaaaa-bbbbb::a000")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := c.replay(ctx, p, id("0"))
	require.NoError(t, err)
	assert.True(t, r.hasEnded)
	assert.Equal(t, receipts, r.ids)
}
