package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/dltbatch/dltbatch/batch"
)

// encodeTags returns the text of the column of tags; "" for no tags.
func encodeTags(t batch.Tags) string {
	if len(t) == 0 {
		return ""
	}
	text, err := json.Marshal(t)
	if err != nil { // impossible for strings alone
		return ""
	}
	return string(text)
}

// decodeTags reads a text of encodeTags. A text that somebody has broken in the database counts as
// no tags, so that the batch is delivered all the same.
func decodeTags(text string) (t batch.Tags) {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil
	}
	return t
}

// tagsOf reads the tags of a batch, which are not in the rows that claims and outcomes read.
func tagsOf(ctx context.Context, t Tx, seq int64) (batch.Tags, error) {
	text, _, err := Get[string](ctx, t, sqlTagsOf, seq)
	return decodeTags(text), err
}
