package console

import (
	"net"
	"net/http"
	"strings"
)

// Local wraps the handler of a server that listens on the loopback interface only. It refuses
// requests whose host is not a name of this machine (status 421): otherwise a page of an attacker,
// opened in a browser on this machine under a name that resolves to this machine (DNS rebinding),
// would have the console's own origin. It checks nothing else. Behind a proxy it refuses
// everything.
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
