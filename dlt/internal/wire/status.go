package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// IsRedirect reports the redirects that ask to send the same elsewhere, so that
// nothing was done here. They are not followed.
func IsRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// MaxRetryAfter bounds what a server can make us wait.
const MaxRetryAfter = time.Hour

// RetryAfter reads the header of the name: seconds, or a date. It is 0 where there
// is none that makes sense.
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
