package sqlrow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlrow"
	"github.com/dltbatch/dltbatch/store"
)

// A cursor comes from outside: whatever it holds, it is read or refused.
func FuzzParseCursor(f *testing.F) {
	f.Add(string(sqlrow.CursorAt(batch.Record{Key: batch.Key{ID: "a b"}, CreatedAt: time.UnixMicro(17)})))
	f.Add("")
	f.Add("!!")
	f.Fuzz(func(t *testing.T, text string) {
		at, id, err := sqlrow.ParseCursor(store.Cursor(text))
		if err != nil {
			require.ErrorIs(t, err, batch.ErrInvalidInput)
			return
		}
		again := sqlrow.CursorAt(batch.Record{Key: batch.Key{ID: batch.ID(id)}, CreatedAt: time.UnixMicro(at)})
		at2, id2, err := sqlrow.ParseCursor(again)
		require.NoError(t, err)
		require.Equal(t, at, at2)
		require.Equal(t, id, id2)
	})
}

// A broken footprint in a database is an error, and what was written is read back.
func FuzzDecodeFootprint(f *testing.F) {
	f.Add(sqlrow.EncodeFootprint(batch.Footprint{Reads: []string{"", "00ff"}, Writes: []string{"1cf126"}}))
	f.Add([]byte{2, 1, 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := sqlrow.DecodeFootprint(b)
		if err != nil {
			return
		}
		again, err := sqlrow.DecodeFootprint(sqlrow.EncodeFootprint(got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func TestTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMicro(1).UTC(), time.Date(2318, 1, 2, 3, 4, 5, 6000, time.UTC)} {
		require.Equal(t, at, sqlrow.FromMicro(sqlrow.ToMicro(at)))
	}
}
