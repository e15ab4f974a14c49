package console_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// Lanes are listed by age, depth, state or name, and by what holds them. Each list has its own
// address, which the heads of its columns, its form and the link to its next page keep.
func TestLanesSortAndFilter(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "deep", "old", "paused", "doubt")
		p.add("old", "o1")
		time.Sleep(2 * time.Millisecond) // the stores' clocks have a resolution of microseconds
		p.add("deep", "d1", "d2", "d3")
		p.add("paused", "p1")
		p.add("doubt", "x1", "x2")
		p.makeUndecided("doubt", "lost")
		_, _, err := p.st.Steer(p.ctx(), store.Steering{Scope: batch.Only("paused"), Action: batch.ActionPause, By: ada})
		require.NoError(p, err)
		listed := func(s shownPage) (names []string) {
			for _, row := range s.descendants("main")[0].descendants("tbody")[0].descendants("tr") {
				names = append(names, strings.TrimSpace(row.descendants("td")[0].text()))
			}
			return names
		}
		assert.Equal(p, "old", listed(p.get("lanes"))[0], "by age")
		for sort, first := range map[string]string{"Waiting": "deep", "Held": "paused", "Lane": "deep", "Attempted": "doubt", "Oldest": "old"} {
			s := p.followLink(p.get("lanes"), sort)
			assert.Equal(p, first, listed(s)[0], sort)
			assert.Len(p, listed(s), 4)
			head := slices.IndexFunc(s.descendants("th"), func(e *element) bool { return e.attrs["aria-sort"] != "" })
			assert.Equal(p, sort, strings.TrimSpace(s.descendants("th")[head].text()))
		}
		for view, want := range map[string][]string{"In doubt": {"doubt"}, "Paused": {"paused"}, "Under way": {"doubt"}, "Held, or with a policy": {"paused"}} {
			assert.Equal(p, want, listed(p.followLink(p.get("lanes"), view)), view)
		}
		assert.Equal(p, []string{"doubt", "old"}, sortedNames(listed(p.get("lanes?name=o"))[:2]))
		assert.Contains(p, p.get("lanes?state=halted").text(), "No lane is like this")
		assert.Contains(p, p.get("lanes?name=%3Cb%3E").text(), "No lane is like this")
	})
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return names
}

// Each page shows the title of its console, and the state of the store.
func TestTitleAndState(t *testing.T) {
	p := newPerson(t)
	require.NoError(t, new(texts.Presence).Show(p.ctx(), p.st, store.Instance{ID: "1", Name: "host-7", Ledger: traits.Name}))
	h, err := console.New(memory.New(), &console.Options{Title: hostileText})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	named, err := parse(w.Body.String())
	require.NoError(t, err)
	assert.Empty(t, named.findFaults())
	assert.Contains(t, named.descendants("title")[0].text(), hostileText)
	assert.Contains(t, named.descendants("header")[0].text(), hostileText)
	assert.Contains(t, p.get("lanes").descendants("title")[0].text(), "dltbatch")
	assert.Equal(t, 1, strings.Count(named.descendants("header")[0].text(), "No instance runs"))
	band := func() string { return p.get("").descendants("header")[0].text() }
	assert.Contains(t, band(), "All well")
	p.recordServing(nil, "s")
	p.add("s", "b1")
	p.submit(p.get("lane?service=s"), "Pause", reasonFields())
	assert.Contains(t, band(), "Needs a person")
	assert.Contains(t, p.get("instances").descendants("header")[0].text(), "Needs a person", "every page says so")
	p.submit(p.get("lane?service=s"), "Resume", reasonFields())
	assert.NotContains(t, band(), "Needs a person")
	broken := newPersonFor(t, p.st, &brokenStore{p.st, assert.AnError}, byHeader)
	assert.NotContains(t, broken.request(http.MethodGet, broken.url+"lanes", nil).descendants("header")[0].text(), "All well", "nobody knows")
}
