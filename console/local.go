package console

import (
	"net"
	"net/http"
	"strings"
)

// Local wraps the handler of a server that listens on the loopback alone, and refuses requests
// under a name that is not this machine's own (status 421). It asks for nothing else: a stranger's
// page in a browser here, whose name was made to lead to this machine (DNS rebinding), would else
// count as the console's own origin. Behind a proxy it refuses everything.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "This console answers as localhost or 127.0.0.1 only.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
