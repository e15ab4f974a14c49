package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// mount adds the console of a store to a server, behind the application's own authentication: logIn
// returns the name of the person who makes a request.
func mount(mux *http.ServeMux, st store.Store, logIn func(*http.Request) (string, error)) (*console.Console, error) {
	pages, err := console.New(st, &console.Options{Actor: logIn})
	if err != nil {
		return nil, err
	}
	mux.Handle("/ops/queue/", http.StripPrefix("/ops/queue", pages))
	return pages, nil // Close it when the server shuts down
}

// An application shows its queue to its operators.
func Example() {
	st := memory.New()
	if err := st.Add(context.Background(), batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("x")}); err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	// The proxy in front of this server sets the header, and takes away any that a browser sends.
	byProxy := func(r *http.Request) (string, error) { return r.Header.Get("X-Forwarded-User"), nil }
	pages, err := mount(mux, st, byProxy)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close()
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ops/queue/lanes", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "shipments"))
	// Output: 200 true
}
