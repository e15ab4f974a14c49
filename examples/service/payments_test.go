package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/store"
	stores "github.com/dltbatch/dltbatch/store/memory"
)

// memoryBooks keeps the books of a test in memory.
type memoryBooks struct {
	store *stores.Store
	mu    sync.Mutex
	rows  map[string]batch.ID
}

func (b *memoryBooks) Enter(_ context.Context, p payment, id batch.ID, add func(store.Tx) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if there, is := b.rows[p.ID]; is && there != id {
		return errIDTaken
	}
	tx := b.store.Begin()
	if err := add(b.store.Tx(tx)); err != nil {
		tx.Rollback()
		return err
	}
	b.rows[p.ID] = id
	return tx.Commit()
}

func (b *memoryBooks) Batch(_ context.Context, payment string) (batch.ID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, is := b.rows[payment]
	if !is {
		return "", errMissing
	}
	return id, nil
}

// A payment is accepted while the ledger is down, and takes effect once after the ledger is back.
func TestLedgerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ledger := memory.New(&memory.Options{CommitAfter: time.Second, Fault: func(batch.Attempt) memory.Fault {
			if time.Since(begin) < time.Hour {
				return memory.Fault{Kind: memory.Unavailable}
			}
			return memory.Fault{}
		}})
		st := stores.New()
		runner, err := dltbatch.New(st, ledger, nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		key, err := sawtooth.GeneratePrivateKey()
		require.NoError(t, err)
		s := &payments{books: &memoryBooks{store: st, rows: map[string]batch.ID{}}, runner: runner, key: key}
		call := func(method, body string) (int, string) {
			w := httptest.NewRecorder()
			s.handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/payments/p-1", strings.NewReader(body)))
			return w.Code, strings.TrimSpace(w.Body.String())
		}
		post := func(body string) int { status, _ := call(http.MethodPost, body); return status }

		status, _ := call(http.MethodGet, "")
		assert.Equal(t, http.StatusNotFound, status)
		assert.Equal(t, http.StatusBadRequest, post(`{"to": "ann"}`))
		assert.Equal(t, http.StatusAccepted, post(`{"to": "ann", "cents": 5}`))
		assert.Equal(t, http.StatusAccepted, post(`{"to": "ann", "cents": 5}`), "the client repeats its request")
		assert.Equal(t, http.StatusConflict, post(`{"to": "bob", "cents": 5}`))
		time.Sleep(59 * time.Minute) // of virtual time
		_, state := call(http.MethodGet, "")
		assert.Equal(t, "waiting", state)
		require.NoError(t, runner.Idle(ctx))
		_, state = call(http.MethodGet, "")
		assert.Equal(t, "committed", state)
		assert.Len(t, ledger.Log(paymentsLane), 1)
		stop()
		require.NoError(t, <-ended)
	})
}
