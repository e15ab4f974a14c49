package integration

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// Every page of the console works on PostgreSQL, with times by the database's clock, and a form
// acts upon what its page showed.
func TestConsole(t *testing.T) {
	s := newSpace(t, nativePool)
	st, _ := s.store()
	require.NoError(t, st.Add(t.Context(), batch.Batch{Service: "s", ID: "b1", Payload: []byte("x"), DataChangeID: "change"}, batch.Batch{Service: "s", ID: "b2", Payload: []byte("x")}))
	h, err := console.New(st, &console.Options{Actor: func(*http.Request) (string, error) { return "ada", nil }})
	require.NoError(t, err)
	ask := func(method, page string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/"+page, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, page := range []string{
		"", "lanes", "lanes?held=1", "lane?service=s", "lane?all=1", "batches", "batches?show=quarantined", "batches?lane=s&state=queued", "batch?service=s&id=b1",
		"orders", "orders?lane=p&batch=b1", "instances", "audit", "audit?lane=s", "search?q=nothing", "bulk", "bulk?action=cancel&service=s", "bulk?action=requeue",
		"bulks",
	} {
		got := ask(http.MethodGet, page, nil)
		assert.Equal(t, http.StatusOK, got.Code, "%s: %s", page, got.Body)
		assert.NotContains(t, got.Body.String(), "h 0 min", "%s: by another clock", page)
	}
	for _, bad := range []string{"lane?service=%00", "batch?id=%00", "batches?lane=%ff", "orders?lane=%00", "orders?batch=%00", "lanes?after=%00", "search?q=%00", "search?q=x&service=%ff"} {
		assert.NotEqual(t, http.StatusServiceUnavailable, ask(http.MethodGet, bad, nil).Code, bad)
	}
	assert.Equal(t, "batch?id=b1&service=s", ask(http.MethodGet, "search?q=change&service=s", nil).Header().Get("Location"))

	form := url.Values{"do": {"cancel"}, "confirm": {"cancel"}, "reason": {"ticket 17"}}
	body := ask(http.MethodGet, "batch?service=s&id=b1", nil).Body.String()
	for _, name := range []string{"service", "id", "version", "created"} {
		found := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)">`).FindStringSubmatch(body)
		require.NotNil(t, found, name)
		form.Set(name, found[1])
	}
	assert.Equal(t, http.StatusSeeOther, ask(http.MethodPost, "act", form).Code)
	assert.Equal(t, http.StatusConflict, ask(http.MethodPost, "act", form).Code, "it has moved on")
	rec, err := st.Get(t.Context(), batch.Key{Service: "s", ID: "b1"})
	require.NoError(t, err)
	assert.Equal(t, batch.Rejected, rec.State)
	assert.Equal(t, http.StatusSeeOther, ask(http.MethodPost, "act", url.Values{"do": {"pause"}, "service": {"s"}, "version": {"0"}, "reason": {"r"}}).Code)
	assert.Contains(t, ask(http.MethodGet, "", nil).Body.String(), "By ada: r.")
}

// Fifty people who keep the first page up to date at one process cause at most one statement a
// second together: one read, of at most thirty statements, serves all of them for half a minute
// (TestPagesKeptUpToDate of package console).
func TestConsoleIsCheap(t *testing.T) {
	s := newSpace(t, nativePool)
	s.store()
	var seen traffic
	st := s.watchedStore(&seen)
	for i := range 40 {
		require.NoError(t, st.Add(t.Context(), batch.Batch{Service: batch.ServiceID(rune('À' + i)), ID: batch.ID(rune('À' + i)), Payload: []byte("x")}))
	}
	_, err := texts.Refresh(t.Context(), st, store.RefreshQuery{})
	require.NoError(t, err)
	h, err := console.New(st, nil)
	require.NoError(t, err)
	look := func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?keep=1", nil))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
	}
	const consoles, pages = 50, 200
	before := seen.current()
	look()
	first := seen.current()
	t.Logf("one read: %d statements, %d more for their transactions", first.workCount-before.workCount, first.frameCount-before.frameCount)
	assert.LessOrEqual(t, first.workCount-before.workCount, 30)
	began := time.Now()
	for range pages {
		look()
	}
	took := time.Since(began)
	after := seen.current()
	if took < 25*time.Second {
		assert.Equal(t, first.workCount, after.workCount, "the others share it")
	}
	t.Logf("a page that is shared: %s; %d consoles every 30 s: %.2f %% of a core", took/pages, consoles, 100*consoles/30.0*took.Seconds()/pages)
}
