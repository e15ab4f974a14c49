package sqlrow

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// CursorAt is the place in a list after a record.
func CursorAt(r batch.Record) store.Cursor { return CursorAfter(r.CreatedAt, string(r.ID)) }

// CursorAfter is the place in a list after an order key.
func CursorAfter(created time.Time, id string) store.Cursor {
	text := strconv.FormatInt(created.UnixMicro(), 10) + " " + id
	return store.Cursor(base64.RawURLEncoding.EncodeToString([]byte(text)))
}

// ParseCursor returns the order key in a cursor, or a [*batch.InputError].
func ParseCursor(c store.Cursor) (at int64, id string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(string(c))
	if err == nil {
		number, rest, ok := strings.Cut(string(text), " ")
		at, err = strconv.ParseInt(number, 10, 64)
		if err == nil && ok {
			return at, rest, nil
		}
	}
	return 0, "", &batch.InputError{Field: "ListQuery.After", Value: batch.Excerpt(string(c), 64), Want: "a cursor that List returned", Err: err}
}
