package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/dltbatch/dltbatch/batch"
)

// encodeTags returns the column of tags, or "" for none.
func encodeTags(t batch.Tags) string {
	if len(t) == 0 {
		return ""
	}
	text, err := json.Marshal(t)
	if err != nil { // of strings alone
		return ""
	}
	return string(text)
}

// decodeTags reads what encodeTags wrote. Tags that somebody has broken in the database are no
// tags: the batch goes its way.
func decodeTags(text string) (t batch.Tags) {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil
	}
	return t
}

// tagsOf reads the tags of a batch. The rows that claims and outcomes read do not have them.
func tagsOf(ctx context.Context, t Tx, seq int64) (batch.Tags, error) {
	text, _, err := Get[string](ctx, t, sqlTagsOf, seq)
	return decodeTags(text), err
}
