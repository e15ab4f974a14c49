package sawtoothtest

import (
	"net/http"
	"strings"
)

// route calls the handler of a request's path (docs/ledgers/sawtooth.md#requests-and-limits).
func (n *Node) route(w http.ResponseWriter, r *http.Request) {
	const get, post = http.MethodGet, http.MethodPost
	dir, name := r.URL.Path, ""
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		dir, name = dir[:i], dir[i+1:]
		if name == "" {
			dir = "" // with a slash at the end, the path is another one
		}
	}
	byName := func(h func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { h(w, r, name) }
	}
	var handlers map[string]http.HandlerFunc
	switch {
	case name == "" && dir == "/batches":
		handlers = map[string]http.HandlerFunc{post: n.serveSubmit}
	case name == "" && dir == "/batch_statuses":
		handlers = map[string]http.HandlerFunc{get: n.serveStatuses, post: n.serveStatuses}
	case name == "" && dir == "/receipts":
		handlers = map[string]http.HandlerFunc{get: n.serveReceipts, post: n.serveReceipts}
	case name == "" && dir == "/blocks":
		handlers = map[string]http.HandlerFunc{get: n.serveBlocks}
	case name == "" && dir == "/subscriptions":
		handlers = map[string]http.HandlerFunc{get: n.serveSubscription}
	case name == "" && dir == "/status":
		handlers = map[string]http.HandlerFunc{get: n.serveLiveness}
	case name != "" && dir == "/batches":
		handlers = map[string]http.HandlerFunc{get: byName(n.serveBatch)}
	case name != "" && dir == "/transactions":
		handlers = map[string]http.HandlerFunc{get: byName(n.serveTransaction)}
	case name != "" && dir == "/state":
		handlers = map[string]http.HandlerFunc{get: byName(n.serveStateAt)}
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
