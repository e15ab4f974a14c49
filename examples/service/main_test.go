package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The program ends with its proof.
func TestRun(t *testing.T) {
	tier.Server(t)
	var out demotest.Output
	require.NoError(t, run(t.Context(), &out, config{database: pgtest.Start(t)}, false))
	demotest.RequireLines(t, out.String())
	for _, want := range []string{"all committed", "/readyz   200", "/metrics  200", "/console/ 401", "PROVED"} {
		assert.Contains(t, out.String(), want)
	}
}

func TestConsoleWantsThePassword(t *testing.T) {
	var names []string
	h := requirePassword("secret", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		name, err := actorOf(r)
		assert.NoError(t, err)
		names = append(names, name)
	}))
	for _, password := range []string{"", "wrong", "secret"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		require.NoError(t, err)
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, password == "secret", w.Code != http.StatusUnauthorized)
	}
	assert.Equal(t, []string{"ann"}, names)
	require.Error(t, run(t.Context(), t.Output(), config{listen: "127.0.0.1:0"}, false))
}
