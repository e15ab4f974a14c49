package store

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dltbatch/dltbatch/batch"
)

// TextKind is the kind of a text: it determines what the text is about, and what its name is.
type TextKind string

// The kinds of texts.
const (
	TextLedger   TextKind = "ledger"    // the name of the ledger that the batches belong to; its name is ""
	TextServed   TextKind = "served"    // the ledger that serves a service; its name is the service
	TextTraits   TextKind = "traits"    // the settings that Runners rely on (JSON); its name is the ledger's
	TextShard    TextKind = "shard"     // the [Shard] that the database is (JSON); its name is ""
	TextPruned   TextKind = "pruned"    // the time up to which final batches were removed (microseconds); its name is ""
	TextLost     TextKind = "lost"      // lost commits for which everything was paused; its name is the database's incarnation
	TextStats    TextKind = "stats"     // counts of open batches and orders (JSON); its name is ""
	TextCauses   TextKind = "causes"    // why batches wait (JSON); its name is ""
	TextInstance TextKind = "instance"  // an [Instance] (JSON); its name is the Instance's ID
	TextBulk     TextKind = "bulk"      // the progress of a bulk action (JSON); its name is the action's token
	TextBulkPart TextKind = "bulk part" // some batches of a bulk action (JSON); its name is the token and a number
)

// Text is a small text as a store keeps it ([CanKeepTexts]).
type Text struct {
	Kind    TextKind
	Name    string
	Version int64 // 1 at first, and raised by each change; 0: no text is kept
	// Begun and Changed are the times of the first and the last change, on the database's clock.
	Begun, Changed time.Time
	Body           string
}

// TextsQuery selects texts of a kind.
type TextsQuery struct {
	Kind TextKind
	// Unchanged selects the texts that were not changed for this long; 0 selects all.
	Unchanged time.Duration
	Limit     int // the largest number of texts
}

// maxTextName is the largest length of a text's name, in bytes.
const maxTextName = 1024

// ValidTexts returns a [*batch.InputError] for texts that cannot be written: a kind, name or body
// that is not valid UTF-8 or has NUL bytes, a name that is too long, a removal of no text, or one
// name twice.
func ValidTexts(texts []Text) error {
	type key struct {
		kind TextKind
		name string
	}
	seen := make(map[key]bool, len(texts))
	for _, t := range texts {
		if err := ValidTextNames(t.Kind, t.Name); err != nil {
			return err
		}
		at := fmt.Sprintf("of %s %q", t.Kind, batch.Excerpt(t.Name, 64))
		switch k := (key{t.Kind, t.Name}); {
		case !isStorable(t.Body):
			return &batch.InputError{Field: "Text.Body", Value: at, Want: "valid UTF-8 without NUL bytes"}
		case t.Version < 0 || t.Version == 0 && t.Body == "":
			return &batch.InputError{Field: "Text.Version", Value: fmt.Sprint(t.Version, " ", at), Want: "the version that is kept"}
		case seen[k]:
			return &batch.InputError{Field: "Text.Name", Value: at, Want: "each name once"}
		default:
			seen[k] = true
		}
	}
	return nil
}

// ValidTextNames returns a [*batch.InputError] for a kind or a name that no text can have.
func ValidTextNames(kind TextKind, names ...string) error {
	if kind == "" || !isStorable(string(kind)) {
		return &batch.InputError{Field: "Text.Kind", Value: batch.Excerpt(string(kind), 64), Want: "a kind"}
	}
	for _, name := range names {
		if len(name) > maxTextName || !isStorable(name) {
			return &batch.InputError{
				Field: "Text.Name", Value: batch.Excerpt(name, 64), Want: fmt.Sprintf("at most %d bytes of valid UTF-8 without NUL bytes", maxTextName),
			}
		}
	}
	return nil
}

func isStorable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
