package splintertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node's HTTP server answers these requests before any endpoint sees them.
func TestHeads(t *testing.T) {
	n := Start(t, nil)
	dial := func(t *testing.T) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", strings.TrimPrefix(n.URL(0), "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c, bufio.NewReader(c)
	}
	service := strings.ReplaceAll(string(n.Service(0)), "::", "/")
	t.Run("a hundred headers", func(t *testing.T) {
		for fields, status := range map[int]int{99: 200, 100: 400, 150: 400} {
			c, r := dial(t)
			_, err := fmt.Fprintf(c, "GET /scabbard/%s/state_root HTTP/1.1\r\nHost: x\r\n%s\r\n", service, strings.Repeat("X-Y: z\r\n", fields-1))
			require.NoError(t, err)
			resp, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, status, resp.StatusCode, "%d fields", fields)
			assert.Equal(t, status == 400, len(body) == 0)
		}
	})
	t.Run("half a head", func(t *testing.T) {
		t.Parallel()
		begun := time.Now() // the node measures from the start of the connection
		c, r := dial(t)
		_, err := io.WriteString(c, "GET /scabbard/x HTTP/1.1\r\nHost:")
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
		assert.GreaterOrEqual(t, time.Since(begun), headTimeout)
		_, err = r.ReadByte()
		assert.ErrorIs(t, err, io.EOF, "the connection is closed")
	})
	t.Run("an idle connection gets no answer", func(t *testing.T) {
		t.Parallel()
		c, r := dial(t)
		_, err := fmt.Fprintf(c, "GET /scabbard/%s/state_root HTTP/1.1\r\nHost: x\r\n\r\n", service)
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		_, err = r.ReadByte()
		assert.ErrorIs(t, err, io.EOF)
	})
	t.Run("a stream", func(t *testing.T) {
		t.Parallel()
		c, r := dial(t)
		_, err := fmt.Fprintf(c, "GET /scabbard/%s/ws/subscribe HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", service)
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		assert.Equal(t, "true", resp.Header.Get("Access-Control-Allow-Credentials"))
		_, err = http.ParseTime(resp.Header.Get("Date"))
		assert.NoError(t, err)
	})
}
