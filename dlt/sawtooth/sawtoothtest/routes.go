package sawtoothtest

import (
	"net/http"
	"strings"
)

// route finds the handler (docs/ledgers/sawtooth.md#requests-and-limits).
func (n *Node) route(w http.ResponseWriter, r *http.Request) {
	const get, post = http.MethodGet, http.MethodPost
	dir, name := r.URL.Path, ""
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		dir, name = dir[:i], dir[i+1:]
		if name == "" {
			dir = "" // a slash at the end makes another path
		}
	}
	byName := func(h func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { h(w, r, name) }
	}
	var handlers map[string]http.HandlerFunc
	switch {
	case name == "" && dir == "/batches":
		handlers = map[string]http.HandlerFunc{post: n.submit}
	case name == "" && dir == "/batch_statuses":
		handlers = map[string]http.HandlerFunc{get: n.statuses, post: n.statuses}
	case name == "" && dir == "/receipts":
		handlers = map[string]http.HandlerFunc{get: n.receipts, post: n.receipts}
	case name == "" && dir == "/blocks":
		handlers = map[string]http.HandlerFunc{get: n.blocks}
	case name == "" && dir == "/subscriptions":
		handlers = map[string]http.HandlerFunc{get: n.subscribe}
	case name == "" && dir == "/status":
		handlers = map[string]http.HandlerFunc{get: n.status}
	case name != "" && dir == "/batches":
		handlers = map[string]http.HandlerFunc{get: byName(n.batchByID)}
	case name != "" && dir == "/transactions":
		handlers = map[string]http.HandlerFunc{get: byName(n.txByID)}
	case name != "" && dir == "/state":
		handlers = map[string]http.HandlerFunc{get: byName(n.stateAt)}
	default:
		n.send(w, r, textAnswer(http.StatusNotFound, "404: Not Found"), Fault{})
		return
	}
	h, ok := handlers[r.Method]
	if !ok {
		n.send(w, r, textAnswer(http.StatusMethodNotAllowed, "405: Method Not Allowed"), Fault{})
		return
	}
	h(w, r)
}
