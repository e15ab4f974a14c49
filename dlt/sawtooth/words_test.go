package sawtooth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// Each answer in the tables has its meaning there. Any other answer is doubt: never a success, and
// never the end of a batch.
func TestWords(t *testing.T) {
	const none = 0
	for status := range 1000 {
		for _, code := range []int{none, 1, 10, 17, 19, 30, 31, 34, 35, 42, 43, 46, 60, 66, 71, 99} {
			for _, f := range []bodyForm{otherForm, textForm, jsonForm} {
				kind := classify(status, code, nil, f, time.Time{}).Kind
				want, known := findMeaning(submitMeanings, status, code)
				switch {
				case known:
				case status == 413 && f == textForm:
					want = dlt.ErrRejected
				case status == 413:
					want = dlt.ErrNotYet
				case status == 400 && code == none && f != jsonForm:
					want = dlt.ErrMisconfigured
				}
				assert.Equal(t, want, kind, "HTTP %d, code %d", status, code)
				if kind == nil {
					assert.Equal(t, 202, status)
				}
				if kind == dlt.ErrRejected { //nolint:errorlint // the kind itself, not an error that wraps it
					assert.True(t, status == 400 && code == 30 || status == 413 && f == textForm, "HTTP %d, code %d", status, code)
				}
			}
			_, known := findMeaning(queryMeanings, status, code)
			assert.Equal(t, !known, classifyStatuses(status, code, nil, time.Time{}).Kind == dlt.ErrDoubt, "HTTP %d, code %d", status, code) //nolint:errorlint // likewise
		}
	}
	for _, w := range submitMeanings {
		assert.Equal(t, w.kind, classify(w.status, max(w.code, 0), nil, jsonForm, time.Time{}).Kind)
		assert.False(t, wire.Refuses(w.status), "one table only")
	}
}
