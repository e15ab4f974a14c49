package wire_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func gzipText(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// receiveAnswer returns a server's answer with this body and encoding to a client that asks for no
// encoding.
func receiveAnswer(t *testing.T, encoding string, body []byte) *http.Response {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, []string{"identity"}, r.Header["Accept-Encoding"])
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
	require.NoError(t, err)
	wire.AcceptEncoding(req.Header)
	resp, err := server.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	wire.Decode(resp)
	return resp
}

// The client reads an answer that a server compresses without being asked. The limit on the bytes
// that are read still holds, and damaged bytes are an error, never a short answer.
func TestDecode(t *testing.T) {
	tier.Plain(t)
	text := []byte(strings.Repeat("all is well ", 1000))
	z := gzipText(t, text)
	empty := gzipText(t, nil)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		maxBytes int64
		want     []byte
		wantText string
	}{
		"as it is":        {body: text, maxBytes: 1 << 20, want: text},
		"identity":        {encoding: "identity", body: text, maxBytes: 1 << 20, want: text},
		"gzip":            {encoding: "gzip", body: z, maxBytes: 1 << 20, want: text},
		"capitals":        {encoding: "GZIP", body: z, maxBytes: 1 << 20, want: text},
		"nothing in it":   {encoding: "gzip", body: empty, maxBytes: 1 << 20, want: []byte{}},
		"too much":        {encoding: "gzip", body: z, maxBytes: int64(len(text)) - 1, wantText: "larger than"},
		"a bomb":          {encoding: "gzip", body: gzipText(t, make([]byte, 64<<20)), maxBytes: 1 << 20, wantText: "larger than"},
		"cut":             {encoding: "gzip", body: z[:len(z)-4], maxBytes: 1 << 20, wantText: "EOF"},
		"cut in the head": {encoding: "gzip", body: z[:4], maxBytes: 1 << 20, wantText: "EOF"},
		"not gzip":        {encoding: "gzip", body: text, maxBytes: 1 << 20, wantText: "gzip"},
		"other":           {encoding: "br", body: text, maxBytes: 1 << 20, wantText: `"br"`},
		"twice":           {encoding: "gzip, gzip", body: z, maxBytes: 1 << 20, wantText: "gzip, gzip"},
		"without content": {encoding: "gzip", body: bytes.Repeat(empty, 100_000), maxBytes: 1 << 20, wantText: "without content"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := receiveAnswer(t, c.encoding, c.body)
			got, err := io.ReadAll(&wire.BoundedReader{R: resp.Body, Left: c.maxBytes})
			if c.wantText != "" {
				require.ErrorContains(t, err, c.wantText)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.NotEqual(t, "gzip", resp.Header.Get("Content-Encoding"))
		})
	}
}

// A caller's Accept-Encoding may name gzip, but no encoding that the client cannot read.
func TestAcceptEncodingOfACaller(t *testing.T) {
	h := http.Header{"Accept-Encoding": {"gzip"}}
	wire.AcceptEncoding(h)
	assert.Equal(t, []string{"gzip"}, h["Accept-Encoding"])
	for value, ok := range map[string]bool{"gzip": true, "gzip;q=1.0, identity;q=0.5": true, "identity": true, "br": false, "gzip, br": false, "*": false, "": false} {
		err := wire.CheckHeader(http.Header{"Accept-Encoding": {value}})
		assert.Equal(t, ok, err == nil, "%q: %v", value, err)
	}
	require.ErrorContains(t, wire.CheckHeader(http.Header{"accept-encoding": {"gzip"}}), "Accept-Encoding")
}
