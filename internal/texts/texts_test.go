package texts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func TestMain(m *testing.M) { os.Exit(leak.CheckBubbles(m)) }

func TestTheLedgersNameIsRecordedOnce(t *testing.T) {
	st := memory.New()
	for _, want := range []struct{ name, recorded string }{{"", ""}, {"first", "first"}, {"other", "first"}, {"", "first"}} {
		got, err := texts.Ledger(t.Context(), st, want.name)
		require.NoError(t, err)
		assert.Equal(t, want.recorded, got)
	}
}

func TestWhoServesIsRecordedOnce(t *testing.T) {
	st := memory.New()
	serve := func(services ...texts.Served) []string {
		names, err := texts.Serve(t.Context(), st, services)
		require.NoError(t, err)
		return names
	}
	look := []texts.Served{{Service: "s"}, {Service: ""}, {Service: "Ü"}}
	assert.Empty(t, serve())
	assert.Equal(t, []string{"", "", ""}, serve(look...), "it only looked")
	assert.Equal(t, []string{"one", "two", "one"}, serve(
		texts.Served{Service: "s", Ledger: "one"}, texts.Served{Service: "", Ledger: "two"}, texts.Served{Service: "Ü", Ledger: "one"}))
	assert.Equal(t, []string{"one", "three", "two", "three"}, serve(
		texts.Served{Service: "s", Ledger: "two"}, texts.Served{Service: "new", Ledger: "three"}, texts.Served{Service: "", Ledger: "one"},
		texts.Served{Service: "new", Ledger: "four"}))
	assert.Equal(t, []string{"one", "two", "one"}, serve(look...))
}

// hookedStore is a store for one process: all processes read before one of them writes.
type hookedStore struct {
	*memory.Store
	afterRead func() // called after the first read
}

func (l *hookedStore) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) (found []store.Text, now time.Time, err error) {
	found, now, err = l.Store.ReadTexts(ctx, kind, names...)
	l.afterRead()
	return found, now, err
}

// Processes that meet the same services at once agree on the ledger of each.
func TestProcessesAgreeOnWhoServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		var read, all sync.WaitGroup
		var names [4][]string
		read.Add(len(names))
		for i := range names {
			all.Go(func() {
				l := &hookedStore{Store: st, afterRead: sync.OnceFunc(func() { read.Done(); read.Wait() })}
				services := []texts.Served{{Service: "a", Ledger: fmt.Sprint(i)}, {Service: "b", Ledger: fmt.Sprint(i)}}
				if i%2 == 1 { // this process meets fewer services
					services = services[1:]
				}
				var err error
				names[i], err = texts.Serve(t.Context(), l, services)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		for i := range names {
			assert.Equal(t, names[0][2-len(names[i]):], names[i])
		}
	})
}

// unchangingStore is a store in which another process always writes first.
type unchangingStore struct{ *memory.Store }

func (unchangingStore) SwapTexts(context.Context, ...store.Text) (bool, error) { return false, nil }

var errDown = errors.New("database down")

// failingStore is a store that accepts no writes.
type failingStore struct{ *memory.Store }

func (failingStore) SwapTexts(context.Context, ...store.Text) (bool, error) { return false, errDown }

func TestWhatIsNotKeptIsNoAnswer(t *testing.T) {
	_, err := texts.Serve(t.Context(), failingStore{memory.New()}, []texts.Served{{Service: "s", Ledger: "one"}})
	require.ErrorIs(t, err, errDown)
	_, err = texts.Serve(t.Context(), unchangingStore{memory.New()}, []texts.Served{{Service: "s", Ledger: "one"}})
	require.Error(t, err)
	_, err = texts.Put(t.Context(), unchangingStore{memory.New()}, store.Text{Kind: "kind", Name: "a", Body: "b"})
	require.Error(t, err)
}

func TestPut(t *testing.T) {
	st := memory.New()
	for _, step := range []struct {
		guess   int64
		body    string
		version int64
	}{{0, "", 0}, {7, "", 0}, {7, "first", 1}, {1, "second", 2}, {1, "third", 3}, {0, "fourth", 4}, {2, "", 0}, {0, "again", 1}} {
		version, err := texts.Put(t.Context(), st, store.Text{Kind: "kind", Name: "a", Version: step.guess, Body: step.body})
		require.NoError(t, err)
		assert.Equal(t, step.version, version)
		now, err := texts.Read(t.Context(), st, "kind", "a")
		require.NoError(t, err)
		assert.Equal(t, step.body, now.Body)
		assert.Equal(t, step.version, now.Version)
	}
}
