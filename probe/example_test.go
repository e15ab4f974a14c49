package probe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dltbatch/dltbatch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store/memory"
)

// With these options a service is ready without its ledger, and not ready before Run runs.
func Example() {
	runner, err := dltbatch.New(memory.New(), ledger.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe.Live(runner, nil))
	mux.Handle("GET /readyz", probe.Ready(runner, &probe.Options{Ledger: -1, Streams: -1}))
	for _, path := range []string{"/livez", "/readyz"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code)
	}
	// Output:
	// /livez 200
	// /readyz 503
}
