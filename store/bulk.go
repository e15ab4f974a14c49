package store

import (
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxBulks is how many bulk actions one ListBulks returns.
const MaxBulks = 1000

// Bulk is a bulk action as a store keeps it ([CanKeepBulks]).
type Bulk struct {
	Token   string
	Version int64 // 1 at first, and raised by each change
	// Begun and Changed are on the database's clock.
	Begun, Changed time.Time
	Text           string
}

// BulkPart is one part of a bulk action, by its place from 0 on.
type BulkPart struct {
	Place int
	Text  string
}

// ValidBulkToken returns a [*batch.InputError] for a token that is not 1 to 128 letters, digits, dots,
// underscores or hyphens.
func ValidBulkToken(token string) error {
	ok := token != "" && len(token) <= 128
	for _, c := range token {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("bulk action: %w", &batch.InputError{
			Field: "token", Value: batch.Excerpt(token, 64), Want: "1 to 128 letters, digits, dots, underscores or hyphens",
		})
	}
	return nil
}
