package sqlrow

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// CursorAt is the place in a list after a record.
func CursorAt(r batch.Record) store.Cursor {
	text := strconv.FormatInt(r.CreatedAt.UnixMicro(), 10) + " " + string(r.ID)
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
