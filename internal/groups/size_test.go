package groups_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/store"
)

func largeOutcome(id string, bytes int) store.Outcome {
	o := outcome(id)
	o.Finding, o.By = store.IsCommitted, batch.ByMonitor
	for bytes > 0 { // many receipts count like one of the same size
		n := min(bytes, 40)
		o.Receipts = append(o.Receipts, batch.Receipt{Data: make([]byte, n)})
		bytes -= n
	}
	return o
}

// A group is bounded by the bytes of its receipts, too, however its outcomes arrived. An outcome
// that is larger than the bound is written alone.
func TestAGroupHasSoManyBytes(t *testing.T) {
	all := []store.Outcome{largeOutcome("a", 60), largeOutcome("b", 40), largeOutcome("c", 1), largeOutcome("d", 500), largeOutcome("e", 0), largeOutcome("f", 100)}
	want := [][]string{{"a", "b"}, {"c"}, {"d"}, {"e", "f"}}
	bounded := func(o *groups.Settings) { o.MaxItems, o.MaxBytes = 100, 100 }
	t.Run("found together", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeStore{}
			r := start(t, f, bounded)
			r.Put(all[0], all[1:]...)
			r.close()
			assert.Equal(t, want, f.calls())
		})
	})
	t.Run("one after the other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
				time.Sleep(time.Second)
				return writtenAnswers(o), nil
			}}
			r := start(t, f, bounded)
			r.Put(outcome("first"))
			time.Sleep(time.Second / 2)
			for _, o := range all {
				r.Put(o)
			}
			r.close()
			assert.Equal(t, append([][]string{{"first"}}, want...), f.calls())
		})
	})
	t.Run("repeated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			up := time.Now().Add(time.Second)
			f := &fakeStore{answer: func(_ context.Context, o []store.Outcome) ([]store.Applied, error) {
				if time.Now().Before(up) {
					return nil, errors.New("the database is away")
				}
				return writtenAnswers(o), nil
			}}
			r := start(t, f, bounded)
			r.Put(all[0], all[1:]...)
			time.Sleep(time.Minute)
			r.close()
			size := map[string]int{"a": 60, "b": 40, "c": 1, "d": 500, "f": 100}
			for _, group := range f.calls() {
				sum := 0
				for _, id := range group {
					sum += size[id]
				}
				assert.True(t, sum <= 100 || len(group) == 1, group)
			}
			require.ElementsMatch(t, []string{"a", "b", "c", "d", "e", "f"}, r.written())
		})
	})
}
