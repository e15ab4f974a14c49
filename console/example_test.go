package console_test

import (
	"bytes"
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

// mount adds the console of a store to a server, behind the application's own authentication:
// logIn returns the name of the person who makes a request.
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
	// The proxy in front of this server sets the header, and removes one that a browser sends.
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

// An application stores tags with a batch, by which people find the batch, and describes the
// payload for them.
func ExampleOptions() {
	st := memory.New()
	invoice := batch.Batch{
		Service: "shipments", ID: "b1", Payload: []byte("signed bytes that say 5 EUR"),
		Tags: batch.Tags{"invoice": "4711", "customer": "77"},
	}
	if err := st.Add(context.Background(), invoice); err != nil {
		fmt.Println(err)
		return
	}
	describe := func(b batch.Batch) []console.Field {
		_, amount, _ := bytes.Cut(b.Payload, []byte("say "))
		return []console.Field{{Name: "Invoice", Value: b.Tags["invoice"]}, {Name: "Amount", Value: string(amount)}}
	}
	pages, err := console.New(st, &console.Options{Describe: describe})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close()
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/batch?service=shipments&id=b1", nil))
	fmt.Println(strings.Contains(w.Body.String(), "5 EUR"), strings.Contains(w.Body.String(), "signed bytes"))

	found, _, err := st.List(context.Background(), store.ListQuery{Tag: batch.Tag{Name: "invoice", Value: "4711"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found[0].ID, found[0].Tags)
	// Output:
	// true false
	// b1 customer=77, invoice=4711
}
