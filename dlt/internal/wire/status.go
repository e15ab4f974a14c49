package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// IsRedirect reports whether a status asks the client to send the same request elsewhere, so
// that nothing was done here. Clients do not follow redirects.
func IsRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// MaxRetryAfter bounds the wait that a server can ask for.
const MaxRetryAfter = time.Hour

// RetryAfter reads the Retry-After header: seconds, or a date. It returns 0 for a missing or
// senseless header.
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
