package store

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Cursor is a place in a list. Callers do not look into its text.
type Cursor string

// CursorAfter returns the place in a list that follows an order key. Every driver can read it.
func CursorAfter(created time.Time, id string) Cursor {
	text := strconv.FormatInt(created.UnixMicro(), 10) + " " + id
	return Cursor(base64.RawURLEncoding.EncodeToString([]byte(text)))
}

// ParseCursor returns the order key of a cursor: microseconds since 1970 and an id. For "" it
// returns a key before all others. The error is a [*batch.InputError].
func ParseCursor(c Cursor) (at int64, id string, err error) {
	if c == "" {
		return math.MinInt64, "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(string(c))
	if err == nil {
		number, rest, ok := strings.Cut(string(text), " ")
		at, err = strconv.ParseInt(number, 10, 64)
		if err == nil && ok && rest != "" { // no store holds the id ""
			err = batch.Key{ID: batch.ID(rest)}.Validate()
		}
		if err == nil && ok {
			return at, rest, nil
		}
	}
	return 0, "", &batch.InputError{Field: "ListQuery.After", Value: batch.Excerpt(string(c), 64), Want: "a cursor that List returned", Err: err}
}
