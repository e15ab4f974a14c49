package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Refuses reports whether a status means that nothing was done: the client has no permission, the
// URL or the method is wrong, the request should go to another address (clients do not follow
// redirects), or a proxy or server does not accept such requests (RFC 9110, sections 15.4 and
// 15.5, and RFC 6585). Repeating the request would not help. No 5xx is among these.
func Refuses(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusLengthRequired,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusExpectationFailed,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// MaxRetryAfter limits the wait that a server can ask for.
const MaxRetryAfter = time.Hour

// RetryAfter reads the Retry-After header: seconds, or a date. It returns 0 if the header is
// missing or cannot be read.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if strings.Trim(v, "0123456789") == "" {
		seconds, err := strconv.ParseInt(v, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), MaxRetryAfter)
}
