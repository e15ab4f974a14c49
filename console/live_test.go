package console_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// openStream opens a stream, and returns its events as they arrive. The channel is closed when the
// stream ends.
func (p *person) openStream() (events <-chan string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.url+"live", nil)
	require.NoError(p, err)
	resp, err := p.client.Do(r)
	require.NoError(p, err)
	require.Equal(p, http.StatusOK, resp.StatusCode)
	assert.Equal(p, "text/event-stream", resp.Header.Get("Content-Type"))
	assert.Equal(p, "no-store", resp.Header.Get("Cache-Control"))
	all := make(chan string, 100)
	go func() {
		defer close(all)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if look, is := strings.CutPrefix(lines.Text(), "data: "); is {
				all <- look
			}
		}
	}()
	return all
}

// A page that is kept up to date gets an event within seconds of an act. The streams end with the
// console, and their number is limited.
func TestLive(t *testing.T) {
	p := newPerson(t)
	page := p.get("?keep=1")
	require.Len(t, page.descendants("script"), 1)
	assert.Equal(t, "30", page.header.Get("Refresh"), "without the script")
	assert.Empty(t, p.get("").header.Get("Refresh"))
	script := p.get("console.js")
	assert.Equal(t, "text/javascript; charset=utf-8", script.header.Get("Content-Type"))

	events := p.openStream()
	first := <-events
	p.add("s", "b1")
	p.submit(p.get("lane?service=s"), "Pause", reasonFields())
	assert.NotEqual(t, first, <-events, "somebody has acted")
	for _, method := range []string{http.MethodHead, http.MethodPost} {
		assert.Equal(t, http.StatusNotFound, p.request(method, p.url+"live", url.Values{}).status)
	}
	for range 99 {
		p.openStream()
	}
	resp, err := p.client.Get(p.url + "live")
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "one too many")
	p.pages.Close()
	for range events { // until the stream ends
	}
	after := p.openStream()
	<-after
	_, open := <-after
	assert.False(t, open, "a console that is closed has no streams")
}

// flushRecorder records how often the answer was flushed, and its text.
type flushRecorder struct {
	*httptest.ResponseRecorder
	mu      sync.Mutex
	flushes int
	text    string
}

func (f *flushRecorder) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flushes++
	f.text += string(b)
	return len(b), nil
}

func (f *flushRecorder) Flush() {}

// Fifty streams together read the store no more often than one page that is kept up to date. A
// stream without news repeats its event, and each stream ends after a while, so that the browser
// is authenticated again.
func TestStreamsAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New()}
		h, err := console.New(st, nil)
		require.NoError(t, err)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?keep=1", nil))
		once := st.surveys
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var some []*flushRecorder
		begin := time.Now()
		for range 50 {
			w := &flushRecorder{ResponseRecorder: httptest.NewRecorder()}
			some = append(some, w)
			all.Go(func() { h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/live", nil)) })
		}
		all.Wait()
		cancel()
		assert.InDelta(t, 600, time.Since(begin).Seconds(), 5, "each has ended by itself")
		assert.LessOrEqual(t, st.surveys, 21*once)
		assert.GreaterOrEqual(t, st.surveys, 15, "and no seldomer")
		for _, w := range some {
			assert.GreaterOrEqual(t, w.flushes, 35, "a read each half a minute, and a sign of life between")
		}
	})
}

// A stream ends when its visitor has gone.
func TestAStreamThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		require.NoError(t, st.Add(t.Context(), batch.Batch{Service: "s", ID: "b", Payload: []byte("x")}))
		h, err := console.New(st, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		h.ServeHTTP(&flushRecorder{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/live", nil))
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

// failingStore is a store whose reads fail for a while.
type failingStore struct {
	store.Store
	failsFrom, failsUntil time.Time
}

func (f *failingStore) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	if now := time.Now(); now.After(f.failsFrom) && now.Before(f.failsUntil) {
		return store.Survey{}, errors.New("the database is away")
	}
	return f.Store.Survey(ctx, q)
}

// A page that is kept up to date gets an event when the store begins to fail, and another when the
// store answers again.
func TestAStreamTellsOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h, err := console.New(&failingStore{memory.New(), begin.Add(time.Minute), begin.Add(3 * time.Minute)}, nil)
		require.NoError(t, err)
		w := &flushRecorder{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/live", nil))
		before, after, failed := strings.Cut(w.text, "event: fails\n")
		require.True(t, failed)
		assert.Contains(t, before, "event: look\n")
		assert.Contains(t, after[strings.LastIndex(after, "event: fails\n")+1:], "event: look\n", "it answers again")
		assert.True(t, strings.HasSuffix(w.text, "event: over\ndata: ask again\n\n"), "the browser asks again at once")
	})
}
