package console_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/console"
)

// On the loopback interface the console answers only under this machine's names.
func TestLocal(t *testing.T) {
	asked := 0
	h := console.Local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:80": 200, "127.0.0.1:8190": 200, "127.8.0.1": 200, "[::1]:8190": 200, "[::1]": 200,
		"": 421, "evil.example": 421, "evil.example:8190": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "192.0.2.1": 421, "[2001:db8::1]:80": 421, "0.0.0.0": 421,
	} {
		before := asked
		r, w := httptest.NewRequest(http.MethodPost, "/act", nil), httptest.NewRecorder()
		r.Host = host
		h.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
		assert.Equal(t, want == 200, asked > before, host)
	}
}
