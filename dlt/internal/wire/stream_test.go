package wire_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// repeatReader reads as n repetitions of a text, and then rest.
type repeatReader struct {
	text        string
	repetitions int
	rest        string
}

func (e *repeatReader) Read(p []byte) (int, error) {
	for e.rest == "" {
		if e.repetitions == 0 {
			return 0, io.EOF
		}
		e.repetitions--
		e.rest = e.text
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A list of any length does not hide the values after it, and is never in memory as a whole.
func TestALongListHidesNothing(t *testing.T) {
	tier.Plain(t)
	const maxAllowed, entries = 4 << 10, 400_000
	list := io.MultiReader(
		strings.NewReader(`{"skipped":{"a":[{"b":"`+strings.Repeat("c", maxAllowed/2)+`"}]},"list":[0`),
		&repeatReader{text: `,{"id":"aaaaaaaaaaaaaaaaaaaaaaaa","n":[1,2,3]}`, repetitions: entries},
		strings.NewReader(`],"also skipped":[0`),
		&repeatReader{text: `,"aaaaaaaaaaaaaaaaaaaaaaaa"`, repetitions: entries},
		strings.NewReader(`],"verdict":"so be it"}`),
	)
	s := wire.NewStream(list, maxAllowed)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	elements, odd, peak := 0, 0, uint64(0)
	verdict := ""
	wrong, err := s.Object(func(key string) error {
		switch key {
		case "list":
			_, err := s.List(func() error {
				var e struct{ ID string }
				bad, err := s.Value(&e)
				elements++
				if bad != nil {
					odd++
				}
				if elements%50_000 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&after)
					peak = max(peak, after.HeapAlloc)
				}
				return err
			})
			return err
		case "verdict":
			_, err := s.Value(&verdict)
			return err
		}
		return s.Skip()
	})
	require.NoError(t, err)
	require.NoError(t, wrong)
	assert.Equal(t, entries+1, elements)
	assert.Equal(t, 1, odd, "a number among the objects")
	assert.Equal(t, "so be it", verdict)
	assert.Less(t, peak, before.HeapAlloc+4<<20, "bytes in memory")
}

// A value of an unexpected kind is read to its end. A piece that is too large, or a document that
// ends too early, ends the reading with an error.
func TestStreamOfOddJSON(t *testing.T) {
	for _, text := range []string{`1`, `"a"`, `null`, `true`, `{"a":{"b":[1,{}]}}`} {
		s := wire.NewStream(strings.NewReader(`{"x":`+text+`,"y":7}`), 1000)
		y := 0
		odd, err := s.Object(func(key string) error {
			if key == "y" {
				_, err := s.Value(&y)
				return err
			}
			odd, err := s.List(func() error { t.Error("an element"); return nil })
			assert.Error(t, odd, text)
			return err
		})
		require.NoError(t, err, text)
		require.NoError(t, odd, text)
		assert.Equal(t, 7, y, text)
	}
	odd, err := wire.NewStream(strings.NewReader(`[{"a":[1]}]`), 1000).Object(nil)
	require.NoError(t, err)
	require.Error(t, odd)

	for _, text := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":[1`, `{"a":[1,`, `{"a":1]`, `{"a":{"b":1}`, `x`} {
		s := wire.NewStream(strings.NewReader(text), 1000)
		_, err := s.Object(func(string) error { return s.Skip() })
		require.Error(t, err, text)
		assert.NotErrorIs(t, err, io.EOF, text)
	}
	s := wire.NewStream(strings.NewReader(fmt.Sprintf(`{"a":%q}`, strings.Repeat("a", 3000))), 1000)
	_, err = s.Object(func(string) error { return s.Skip() })
	require.ErrorIs(t, err, wire.ErrTooLarge)
}
