package texts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// Report is a text that takes long to make. One process at a time makes it ([store.StatsTurn]),
// and all others read it.
type Report struct {
	store.StatsTurn
	Detail json.RawMessage `json:"detail,omitempty"` // nil if it was never made
	Now    time.Time       `json:"-"`                // the database's time of the read

	kind    store.TextKind
	version int64
}

// ReadReport reads the report of a kind. A text from another version of the code counts as no
// report.
func ReadReport(ctx context.Context, s Store, kind store.TextKind) (Report, error) {
	found, now, err := s.ReadTexts(ctx, kind, "")
	if err != nil {
		return Report{}, err
	}
	var r Report
	if json.Unmarshal([]byte(found[0].Body), &r) != nil {
		r = Report{}
	}
	r.Now, r.kind, r.version = now, kind, found[0].Version
	return r, nil
}

// Keep writes the report in place of the one that was read. It returns false if another process
// has written since.
func (r *Report) Keep(ctx context.Context, s Store) (bool, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	did, err := s.SwapTexts(ctx, store.Text{Kind: r.kind, Version: r.version, Body: string(body)})
	if did {
		r.version++
	}
	return did, err
}
