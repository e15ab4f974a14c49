package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// downStore is the store of a server that cannot be reached.
type downStore struct{ store.Store }

var errDown = errors.New("connection refused: password=" + secret)

func (downStore) ReadTexts(context.Context, store.TextKind, ...string) ([]store.Text, time.Time, error) {
	return nil, time.Time{}, errDown
}

func (downStore) FindLanes(context.Context, store.FindLanesQuery) ([]batch.ServiceID, error) {
	return nil, errDown
}

func (downStore) Survey(context.Context, store.SurveyQuery) (store.Survey, error) {
	return store.Survey{}, errDown
}

// newPersonOfShards returns a person with the console of n shards. The shard with the number down
// cannot be reached; n means that all can.
func newPersonOfShards(t *testing.T, n, down int) (p *person, stores []store.Store) {
	p = &person{T: t, name: "ada", log: &strings.Builder{}}
	over := make([]store.Store, n)
	for i := range n {
		stores = append(stores, memory.New())
		if over[i] = stores[i]; i == down {
			over[i] = downStore{stores[i]}
		}
	}
	h, err := console.NewShards(&console.Options{Actor: byHeader, Title: "payments", Logger: slog.New(slog.NewTextHandler(p.log, nil))}, over...)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(mountPath+"/", http.StripPrefix(mountPath, h))
	server := httptest.NewServer(mux)
	p.url, p.client, p.pages = server.URL+mountPath+"/", server.Client(), h
	t.Cleanup(h.Close)
	t.Cleanup(server.Close)
	return p, stores
}

// shardLane returns the name of a lane that belongs to a shard.
func shardLane(number, of int) batch.ServiceID {
	for i := 0; ; i++ {
		if lane := batch.ServiceID(fmt.Sprint("lane ", i)); store.ShardOf(lane, of) == number {
			return lane
		}
	}
}

// numberedStore is a store that knows its shard's number.
type numberedStore struct {
	store.Store
	shard store.Shard
}

func (n numberedStore) Shard() store.Shard { return n.shard }

// Stores that are not in the order of their numbers are refused: otherwise a form on the pages of
// one shard would act upon another.
func TestShardsOutOfPlaceAreRefused(t *testing.T) {
	at := func(number int) store.Store {
		return numberedStore{memory.New(), store.Shard{Set: "pay", Number: number, Of: 2}}
	}
	_, err := console.NewShards(nil, at(0), at(1))
	require.NoError(t, err)
	for name, list := range map[string][]store.Store{
		"swapped": {at(1), at(0)}, "twice": {at(0), at(0)}, "one is missing": {at(0)}, "more than there are": {at(0), at(1), memory.New()},
		"of another set": {at(0), numberedStore{memory.New(), store.Shard{Set: "other", Number: 1, Of: 2}}},
	} {
		_, err := console.NewShards(nil, list...)
		require.ErrorIs(t, err, batch.ErrInvalidInput, name)
	}
}

// The first page and the search cover all shards; the pages of a shard, with its acts, are below
// its path.
func TestShards(t *testing.T) {
	const n = 3
	p, stores := newPersonOfShards(t, n, n)
	for i, st := range stores {
		lane := shardLane(i, n)
		require.NoError(t, st.Add(t.Context(), batch.Batch{Service: lane, ID: batch.ID(fmt.Sprint("batch-", i)), Payload: []byte(secret)}))
	}
	home := p.get("")
	for i := range n {
		assert.Equal(t, fmt.Sprint(mountPath, "/", i, "/"), p.followLink(home, fmt.Sprint("Shard ", i)).url.Path)
	}
	assert.Contains(t, home.text(), "All shards: No instance runs")

	assert.Contains(t, p.get("search?q=batch-").text(), "batch-2")
	one := p.get("search?q=batch-1")
	assert.Equal(t, mountPath+"/1/batch", one.url.Path)
	assert.Contains(t, one.html, `href="../"`)
	assert.Contains(t, one.html, `action="../search"`)
	assert.Contains(t, one.html, "payments, shard 1 of 3")
	found := p.get("search?q=batch-")
	assert.Equal(t, mountPath+"/2/batch", p.followLink(found, "batch-2").url.Path)
	assert.Equal(t, mountPath+"/0/lane", p.followLink(found, string(shardLane(0, n))).url.Path)
	assert.Contains(t, p.get("search.json?q=batch-1").html, `"href":"batch?id=batch-1`)

	lanes := p.get("lanes?sort=age")
	assert.Equal(t, mountPath+"/2/lanes", p.followLink(lanes, "Shard 2").url.Path)
	assert.Equal(t, http.StatusNotFound, p.request(http.MethodGet, p.url+"3/", nil).status)
	assert.Equal(t, http.StatusNotFound, p.request(http.MethodGet, p.url+"01/", nil).status)

	lane := shardLane(1, n)
	paused := p.submit(p.get("lane?service="+url.QueryEscape(string(lane))), "Pause", map[string]string{"reason": "ticket 17"})
	assert.Equal(t, http.StatusOK, paused.status, paused.text())
	assert.Equal(t, mountPath+"/1/lane", paused.url.Path)
	control, err := stores[1].Control(t.Context(), batch.Only(lane))
	require.NoError(t, err)
	assert.Equal(t, ada, control.PausedBy)
	assert.Contains(t, p.get("").text(), "Shard 1: ")
	assert.Equal(t, http.StatusMethodNotAllowed, p.request(http.MethodPost, p.url+"bulk", url.Values{"do": {"pause"}, "reason": {"r"}}).status, "a shard takes forms")
	_, err = console.NewShards(nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
}

// A shard that cannot be reached is named first, and the others are shown.
func TestAShardThatIsDown(t *testing.T) {
	const n = 3
	p, stores := newPersonOfShards(t, n, 1)
	for _, i := range []int{0, 2} {
		require.NoError(t, stores[i].Add(t.Context(), batch.Batch{Service: shardLane(i, n), ID: batch.ID(fmt.Sprint("batch-", i)), Payload: []byte("x")}))
	}
	text := p.get("").text()
	down, other := strings.Index(text, "Shard 1 did not answer"), strings.Index(text, "Shards 0 and 2: No instance runs")
	assert.Positive(t, down)
	assert.Greater(t, other, down)
	found := p.get("search?q=batch-2")
	assert.Contains(t, found.text(), "Shard 1 did not answer")
	assert.Equal(t, mountPath+"/2/batch", p.followLink(found, "batch-2").url.Path)
	assert.Equal(t, http.StatusServiceUnavailable, p.request(http.MethodGet, p.url+"1/", nil).status)
	assert.Contains(t, p.log.String(), "connection refused")
}
