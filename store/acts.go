package store

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"

	"github.com/dltbatch/dltbatch/batch"
)

// ActsQuery asks for a page of all acts.
type ActsQuery struct {
	After Cursor // the place behind which the page begins; "" is the beginning of the list
	Limit int    // defaults to 100; 1,000 at most
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q ActsQuery) Bounded() ActsQuery {
	const usual, most = 100, 1000
	if q.Limit <= 0 {
		q.Limit = usual
	}
	q.Limit = min(q.Limit, most)
	return q
}

// ActPlace is the place of an act in the list that [Store].Acts returns. Stores use it. Of two
// acts of the same moment an act upon a lane comes first; each store chooses the rest of the
// order.
type ActPlace struct {
	At       int64  `json:"at"` // microseconds since 1970
	Lane     bool   `json:"lane,omitzero"`
	All      bool   `json:"all,omitzero"`
	Service  string `json:"service,omitzero"`
	Batch    string `json:"batch,omitzero"`
	Seq      int64  `json:"seq,omitzero"`
	Position int64  `json:"position"`
}

// Compare is negative if p comes before o in the list. The newest act is the first of the list.
func (p ActPlace) Compare(o ActPlace) int {
	order := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(o.At, p.At), order(o.Lane)-order(p.Lane), order(o.All)-order(p.All), cmp.Compare(o.Service, p.Service),
		cmp.Compare(o.Batch, p.Batch), cmp.Compare(o.Seq, p.Seq), cmp.Compare(o.Position, p.Position))
}

// Cursor returns the place as a cursor, which the caller passes to the next call.
func (p ActPlace) Cursor() Cursor {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of numbers and texts always has a JSON form
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(text))
}

// ParseActPlace reads a cursor; "" is the place before all acts. The error is a
// [*batch.InputError].
func ParseActPlace(c Cursor) (p ActPlace, err error) {
	if c == "" {
		return ActPlace{At: math.MaxInt64, Lane: true, All: true, Position: math.MaxInt64}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(string(c))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && (batch.Only(batch.ServiceID(p.Service)).Validate() != nil || p.Position < 1) {
		err = batch.ErrInvalidInput
	}
	if err != nil {
		return p, &batch.InputError{Field: "ActsQuery.After", Value: batch.Excerpt(string(c), 64), Want: "a cursor that Acts returned", Err: err}
	}
	return p, nil
}
