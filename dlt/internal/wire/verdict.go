package wire

import (
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
)

// Verdict is the meaning of a response for an attempt.
type Verdict struct {
	Kind       error // nil means accepted
	RetryAfter time.Duration
}

// VerdictOf returns the verdict of a kind; of ErrBusy with the Retry-After of the header.
func VerdictOf(kind error, h http.Header, now time.Time) Verdict {
	v := Verdict{Kind: kind}
	if kind == dlt.ErrBusy { //nolint:errorlint // it is a word of the table
		v.RetryAfter = RetryAfter(h, now)
	}
	return v
}
