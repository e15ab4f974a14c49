package groups_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/groups"
	"github.com/dltbatch/dltbatch/store"
)

// slowKeepStore is a store whose writes take 10 ms and return what answer returns.
type slowKeepStore struct {
	answer func(ids []string) ([]bool, error)

	mu     sync.Mutex
	groups [][]string
}

func (f *slowKeepStore) KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	var ids []string
	for _, p := range kept {
		ids = append(ids, string(p.Key.ID))
	}
	f.mu.Lock()
	f.groups = append(f.groups, ids)
	f.mu.Unlock()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.answer != nil {
		return f.answer(ids)
	}
	return slices.Repeat([]bool{true}, len(ids)), nil
}

func (f *slowKeepStore) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.groups)
}

func prepared(id string) store.Prepared {
	return store.Prepared{Ref: store.Ref{Key: batch.Key{Service: "s", ID: batch.ID(id)}}, Version: 1, Bytes: []byte("x")}
}

func runKeeper(t *testing.T, f *slowKeepStore, test func(t *testing.T, k *groups.Keeper, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := groups.NewKeeper(f, 50, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { k.Run(ctx) })
		stop := func() { cancel(); done.Wait() }
		defer stop()
		test(t, k, stop)
	})
}

type keepAnswer struct {
	kept bool
	err  error
}

// keepMany keeps n requests at once, and returns each answer by id.
func keepMany(ctx context.Context, k *groups.Keeper, n int) map[string]keepAnswer {
	out := map[string]keepAnswer{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id := fmt.Sprintf("b%03d", i)
			did, err := k.Keep(ctx, prepared(id))
			mu.Lock()
			defer mu.Unlock()
			out[id] = keepAnswer{did, err}
		})
	}
	wg.Wait()
	return out
}

func TestASingleRequestDoesNotWait(t *testing.T) {
	runKeeper(t, &slowKeepStore{}, func(t *testing.T, k *groups.Keeper, _ func()) {
		start := time.Now()
		did, err := k.Keep(t.Context(), prepared("b"))
		require.NoError(t, err)
		assert.True(t, did)
		assert.Equal(t, 10*time.Millisecond, time.Since(start))
	})
}

func TestManyShareAWrite(t *testing.T) {
	f := &slowKeepStore{}
	runKeeper(t, f, func(t *testing.T, k *groups.Keeper, _ func()) {
		for id, s := range keepMany(t.Context(), k, 200) {
			assert.Equal(t, keepAnswer{true, nil}, s, id)
		}
		assert.LessOrEqual(t, f.calls(), 12)
		seen := map[string]bool{}
		for _, g := range f.groups {
			assert.LessOrEqual(t, len(g), 50)
			for _, id := range g {
				assert.False(t, seen[id], "once")
				seen[id] = true
			}
		}
		assert.Len(t, seen, 200)
	})
}

// Each caller gets the answer about its own row.
func TestBytesOfABatchThatMovedOnAreNotKept(t *testing.T) {
	f := &slowKeepStore{answer: func(ids []string) (did []bool, err error) {
		for _, id := range ids {
			did = append(did, !strings.HasSuffix(id, "7"))
		}
		return did, nil
	}}
	runKeeper(t, f, func(t *testing.T, k *groups.Keeper, _ func()) {
		for id, s := range keepMany(t.Context(), k, 200) {
			assert.Equal(t, keepAnswer{!strings.HasSuffix(id, "7"), nil}, s, id)
		}
	})
}

// If a write fails, no caller is told that its row was written, and as few callers as possible get
// an error.
func TestAWriteThatFails(t *testing.T) {
	for name, answer := range map[string]func(ids []string) ([]bool, error){
		"an error": func(ids []string) ([]bool, error) {
			if slices.Contains(ids, "b100") {
				return slices.Repeat([]bool{true}, len(ids)), errTest
			}
			return slices.Repeat([]bool{true}, len(ids)), nil
		},
		"too few answers": func(ids []string) ([]bool, error) {
			if slices.Contains(ids, "b100") {
				return slices.Repeat([]bool{true}, len(ids)-1), nil
			}
			return slices.Repeat([]bool{true}, len(ids)), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &slowKeepStore{answer: answer}
			runKeeper(t, f, func(t *testing.T, k *groups.Keeper, _ func()) {
				failed := 0
				for id, s := range keepMany(t.Context(), k, 200) {
					assert.Equal(t, s.err == nil, s.kept, id)
					if s.err != nil {
						failed++
					}
					if id == "b100" {
						assert.Error(t, s.err)
					}
				}
				assert.Equal(t, 1, failed, "alone")
			})
		})
	}
}

func TestNothingSpoilsAGroup(t *testing.T) {
	f := &slowKeepStore{}
	runKeeper(t, f, func(t *testing.T, k *groups.Keeper, _ func()) {
		p := prepared("b")
		p.Bytes = make([]byte, store.MaxPrepared+1)
		_, err := k.Keep(t.Context(), p)
		require.ErrorIs(t, err, batch.ErrInvalidInput)
		assert.Zero(t, f.calls())
	})
}

func TestAWriteThatHangs(t *testing.T) {
	f := &slowKeepStore{}
	runKeeper(t, f, func(t *testing.T, k *groups.Keeper, _ func()) {
		hang := make(chan struct{})
		f.answer = func([]string) ([]bool, error) { <-hang; return nil, errTest }
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for id, s := range keepMany(ctx, k, 20) {
			assert.Equal(t, keepAnswer{false, context.DeadlineExceeded}, s, id)
		}
		close(hang)
	})
}

// A request whose caller no longer waits is not written.
func TestAnAbandonedRequestIsNotWritten(t *testing.T) {
	f := &slowKeepStore{}
	runKeeper(t, f, func(t *testing.T, k *groups.Keeper, _ func()) {
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range 50 {
			_, err := k.Keep(gone, prepared("gone"))
			require.ErrorIs(t, err, context.Canceled)
		}
		did, err := k.Keep(t.Context(), prepared("here"))
		require.NoError(t, err)
		assert.True(t, did)
		for _, g := range f.groups {
			assert.NotContains(t, g, "gone")
		}
	})
}

func TestAKeeperThatStoppedAnswersWithAnError(t *testing.T) {
	f := &slowKeepStore{}
	runKeeper(t, f, func(t *testing.T, k *groups.Keeper, stop func()) {
		results := make(chan map[string]keepAnswer)
		go func() { results <- keepMany(t.Context(), k, 200) }()
		time.Sleep(5 * time.Millisecond)
		stop()
		for id, s := range <-results {
			assert.False(t, s.kept, id)
			assert.Error(t, s.err, id)
		}
		_, err := k.Keep(t.Context(), prepared("late"))
		assert.ErrorIs(t, err, groups.ErrStopped)
	})
}
