package canton

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// participantError is a participant's error, in an HTTP answer, a frame of a stream or a
// completion (docs/ledgers/canton.md#errors).
type participantError struct {
	id         string // such as DUPLICATE_COMMAND; "" or "NA" if not given
	category   int    // 0 if not given; -1 for legacy errors
	grpcCode   int    // 0 if not given
	message    string
	retryAfter time.Duration // 0 if not given
	context    map[string]string
}

// envelope is the body of an error answer.
type envelope struct {
	participantError
	isParticipants bool // true if it is the participant's error object
	isPlainText    bool // true for text/plain, as the participant's HTTP server sends it
	// saysUndecodable is true if the answer says that the body cannot be decoded.
	saysUndecodable bool
}

type envelopeJSON struct {
	Code     *string        `json:"code"`
	Cause    string         `json:"cause"`
	Context  map[string]any `json:"context"`
	Category *int           `json:"errorCategory"`
	GRPC     *int           `json:"grpcCodeValue"`
	Retry    *string        `json:"retryInfo"`
}

// undecodablePrefix is the beginning of the answer to a body that cannot be decoded. This answer
// has no code. Other answers with 400 in plain text are about the request line or a header.
const undecodablePrefix = "Invalid value for: body"

// readEnvelope reads an error body. It never fails: an answer that cannot be read in time has no
// meaning. cancel cancels the request.
func readEnvelope(h http.Header, body io.Reader, cancel context.CancelFunc) envelope {
	b, _ := wire.ReadShortBody(body, cancel)
	return parseEnvelope(h.Get("Content-Type"), b)
}

func parseEnvelope(contentType string, b []byte) envelope {
	media, _, _ := mime.ParseMediaType(contentType)
	f, known := parseFailure(b)
	if !known {
		// The text is not shown, since it may quote the body that could not be decoded.
		plain := media == "text/plain"
		return envelope{isPlainText: plain, saysUndecodable: plain && bytes.HasPrefix(b, []byte(undecodablePrefix))}
	}
	return envelope{participantError: f, isParticipants: true}
}

// parseFailure reads an error object. An error object has an id, and a category or a gRPC
// code.
func parseFailure(b []byte) (participantError, bool) {
	var doc envelopeJSON
	if json.Unmarshal(b, &doc) != nil || doc.Code == nil || (doc.Category == nil && doc.GRPC == nil) {
		return participantError{}, false
	}
	f := participantError{id: *doc.Code, message: doc.Cause, context: make(map[string]string, len(doc.Context))}
	for k, v := range doc.Context {
		if s, ok := v.(string); ok {
			f.context[k] = s
		}
	}
	if doc.Category != nil {
		f.category = *doc.Category
	}
	if doc.GRPC != nil {
		f.grpcCode = *doc.GRPC
	}
	if doc.Retry != nil {
		f.retryAfter = parseScalaDuration(*doc.Retry)
	}
	return f, true
}

// shownText returns the failure as a text that may be shown.
func (f participantError) shownText() string {
	if f.id == "" {
		return f.message
	}
	if f.message == "" {
		return f.id
	}
	return f.id + ": " + f.message
}

// maxRetryAfter limits the wait that a server can ask for.
const maxRetryAfter = time.Hour

// parseScalaDuration reads a printed Scala duration, such as "1 second" or "500 milliseconds". It
// returns at most an hour, and 0 for any other text.
func parseScalaDuration(s string) time.Duration {
	number, unit, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	var d time.Duration
	switch strings.TrimSuffix(strings.TrimSpace(unit), "s") {
	case "nanosecond":
		d = time.Nanosecond
	case "microsecond":
		d = time.Microsecond
	case "millisecond":
		d = time.Millisecond
	case "second":
		d = time.Second
	case "minute":
		d = time.Minute
	case "hour":
		d = time.Hour
	case "day":
		d = 24 * time.Hour
	default:
		return 0
	}
	if n > math.MaxInt64/int64(d) {
		return maxRetryAfter
	}
	return min(time.Duration(n)*d, maxRetryAfter)
}

// retryAfter reads the Retry-After header as proxies send it, in seconds. It returns 0 if the
// header is missing or cannot be read.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(h.Get("Retry-After")), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter)
}
