package batch

import (
	"time"

	"github.com/dltbatch/dltbatch/internal/redact"
)

// Limits of stored reports.
const (
	// MaxReports is how many reports are kept of a batch: the first, and the newest.
	MaxReports = 20
	// MaxEndpointLen bounds an endpoint's name, in bytes.
	MaxEndpointLen = 256
	// MaxInstanceLen bounds an instance's name, in bytes.
	MaxInstanceLen = 64
)

// Report is the stored result of an attempt that did not simply end well: of each failed
// attempt, and of each accepted one after a failed one. It never holds a payload or a secret.
type Report struct {
	Attempt int       `json:"attempt"` // the attempt's number
	At      time.Time `json:"at"`      // when it was recorded, on the database's clock
	// Kind is the error; "" means accepted.
	Kind       ErrorKind     `json:"kind,omitzero"`
	StatusCode int           `json:"status_code,omitzero"` // HTTP status; 0 if there was no response
	Code       int           `json:"code,omitzero"`        // the ledger's own code; 0 if there was none
	Endpoint   string        `json:"endpoint,omitzero"`    // URL without credentials and query
	Took       time.Duration `json:"took_ns,omitzero"`     // duration of the last request, on the instance's clock; 0 if there was none
	Text       string        `json:"text,omitzero"`        // excerpt of the ledger's answer
	Instance   string        `json:"instance,omitzero"`    // name of the instance that made the attempt, or asked about it
}

// Fit returns the report made fit to be stored: texts that any database accepts (valid UTF-8, no
// control characters, of bounded length), an endpoint without credentials and query, and times in
// whole microseconds.
func (r Report) Fit() Report {
	r.At = r.At.UTC().Truncate(time.Microsecond)
	r.Took = max(0, r.Took).Truncate(time.Microsecond)
	r.Kind = ErrorKind(Excerpt(string(r.Kind), maxKindLen))
	r.Endpoint = Excerpt(redact.BareEndpoint(r.Endpoint), MaxEndpointLen)
	r.Text = Excerpt(r.Text, MaxErrorText)
	r.Instance = Excerpt(r.Instance, MaxInstanceLen)
	return r
}
