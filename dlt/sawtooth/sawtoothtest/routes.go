package sawtoothtest

import "net/http"

func (n *Node) route(w http.ResponseWriter, r *http.Request) {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	post := r.Method == http.MethodPost
	switch r.URL.Path {
	case "/batches":
		if post {
			n.submit(w, r)
			return
		}
		n.send(w, r, textAnswer(http.StatusMethodNotAllowed, "405: Method Not Allowed"), Fault{})
	case "/batch_statuses":
		if get || post {
			n.statuses(w, r)
			return
		}
		n.send(w, r, textAnswer(http.StatusMethodNotAllowed, "405: Method Not Allowed"), Fault{})
	default:
		n.send(w, r, textAnswer(http.StatusNotFound, "404: Not Found"), Fault{})
	}
}
