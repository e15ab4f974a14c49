package wire_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 5 ":                            5 * time.Second,
		"3600":                           time.Hour,
		"3601":                           time.Hour,
		"9223372036854775808":            time.Hour,
		"-1":                             0,
		"1.5":                            0,
		"soon":                           0,
		"Sun, 01 Mar 2026 12:00:30 GMT":  30 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT":  0,
		"Mon, 01 Mar 2027 12:00:00 GMT":  time.Hour,
		"Sunday, 01-Mar-26 12:00:30 GMT": 30 * time.Second,
	} {
		assert.Equal(t, want, wire.RetryAfter(http.Header{"Retry-After": {v}}, now), "%q", v)
	}
	assert.Zero(t, wire.RetryAfter(nil, now))
}

// Refuses is true for exactly these statuses, known or not.
func TestVerdictRefuses(t *testing.T) {
	refused := []int{301, 302, 307, 308, 401, 402, 403, 404, 405, 407, 411, 414, 415, 417, 421, 426, 431}
	for status := range 1000 {
		assert.Equal(t, slices.Contains(refused, status), wire.Refuses(status), status)
	}
}
