package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func TestCursor(t *testing.T) {
	at, id, err := store.ParseCursor(store.CursorAfter(time.UnixMicro(42).UTC(), "an id with spaces"))
	require.NoError(t, err)
	assert.Equal(t, int64(42), at)
	assert.Equal(t, "an id with spaces", id)
	at, id, err = store.ParseCursor("")
	require.NoError(t, err)
	assert.Negative(t, at)
	assert.Empty(t, id)
	for _, c := range []store.Cursor{"?", "AAAA", store.CursorAfter(time.UnixMicro(42), "a\x00"), store.CursorAfter(time.UnixMicro(42), "\xff")} {
		_, _, err := store.ParseCursor(c)
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	}
}
