package store

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// BulkKeeper keeps how far bulk actions of operators have come, so that after a crash a person may go
// on with one in another process (docs/operations.md#bulk-actions). The texts are package operator's.
// A Runner does without it; without it operator's Bulks gives [ErrUnsupported], and a bulk action is
// carried out by one process, or by a person who keeps its selection.
type BulkKeeper interface {
	// AddBulk keeps a bulk action and its parts, all or nothing. Where the token is known it changes
	// nothing. In the same transaction it removes actions that nobody has changed for longer than
	// forget; 0 removes none. The error is a [*batch.InputError] where the token is no [ValidBulkToken].
	AddBulk(ctx context.Context, token, text string, parts []string, forget time.Duration) (Bulk, error)
	// SetBulk replaces the texts of an action, and of one of its parts where part is not nil, if
	// the action still has this version. Else it changes nothing, and the error is
	// [batch.ErrMovedOn], or [batch.ErrNotFound].
	SetBulk(ctx context.Context, token string, version int64, text string, part *BulkPart) (Bulk, error)
	// GetBulk returns an action, or [batch.ErrNotFound].
	GetBulk(ctx context.Context, token string) (Bulk, error)
	// GetBulkPart returns the text of a part, or [batch.ErrNotFound].
	GetBulkPart(ctx context.Context, token string, place int) (string, error)
	// ListBulks returns the newest limit actions, the newest first; at most [MaxBulks].
	ListBulks(ctx context.Context, limit int) ([]Bulk, error)
}

// MaxBulks is how many bulk actions one ListBulks returns.
const MaxBulks = 1000

// Bulk is a bulk action as a [BulkKeeper] keeps it.
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
