package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// hostileText is the text in every field that a ledger or a user writes.
const hostileText = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>{{.}}&amp;`

// longText is a name of the length that ledgers use.
var longText = strings.Repeat("0123456789abcdef", 8)

// orderedIDs returns n ids in order.
func orderedIDs(n int) []batch.ID {
	ids := make([]batch.ID, n)
	for i := range ids {
		ids[i] = batch.ID(fmt.Sprintf("%06d", i))
	}
	return ids
}

// fillWithTrouble fills a store with lanes that do not move, for all reasons, with hostile names.
// It returns the service.
func (p *person) fillWithTrouble() batch.ServiceID {
	p.Helper()
	by := batch.By{Actor: hostileText, Reason: hostileText}
	s, id := batch.ServiceID(hostileText), batch.ID(longText+hostileText)
	more := batch.ServiceID(longText + hostileText)
	p.recordServing(nil, s, more, "halted", "paused", "final")
	require.NoError(p, p.st.Add(p.ctx(),
		batch.Batch{
			Service: s, ID: id, Payload: []byte(secret), DataChangeID: hostileText,
			Transactions: []batch.Transaction{{ID: hostileText, FamilyName: hostileText}},
			Footprint:    batch.Footprint{Reads: []string{hostileText, "r" + longText}, Writes: []string{"w" + hostileText}},
		},
		batch.Batch{Service: s, ID: "second" + id, Payload: []byte(secret)},
		batch.Batch{Service: more, ID: "more", Payload: []byte(secret)},
		batch.Batch{Service: "halted", ID: hostileText, Payload: []byte(secret)},
		batch.Batch{Service: "halted", ID: "after", Payload: []byte(secret)},
		batch.Batch{Service: "paused", ID: "paused", Payload: []byte(secret)},
		batch.Batch{Service: "final", ID: "final", Payload: []byte(secret)},
		batch.Batch{Service: "", ID: "of no name", Payload: []byte(secret)},
	))
	for _, st := range []store.Steering{
		{Scope: batch.Only("halted"), Action: batch.ActionSetPolicy, Policy: batch.PolicyHalt, By: by},
		{Scope: batch.Only("final"), Action: batch.ActionSetPolicy, Policy: batch.PolicyQuarantine, By: by},
		{Scope: batch.Only("paused"), Action: batch.ActionPause, By: by},
	} {
		_, _, err := p.st.Steer(p.ctx(), st)
		require.NoError(p, err)
	}
	p.makeUndecided(s, hostileText)
	p.endAttempt("halted", store.Refused, hostileText)
	p.endAttempt("final", store.Refused, hostileText)
	_, err := p.st.Acquit(p.ctx(), p.readRecord("final", "final"), by)
	require.NoError(p, err)
	c := p.endAttempt(more, store.Accepted, "")
	look, err := p.st.Look(p.ctx(), c.Key, 1)
	require.NoError(p, err)
	p.recordOutcome(store.Outcome{
		Ref: look.Ref, Version: look.Row.Version, By: batch.ByMonitor, Finding: store.IsInvalid, Settle: time.Hour, Check: time.Second,
		Error:    &batch.SubmissionError{Kind: batch.KindInvalid, Message: hostileText},
		Receipts: []batch.Receipt{{TransactionID: hostileText, Message: hostileText, Data: []byte(secret)}},
	})
	orders, ok := p.st.(order.Store)
	require.True(p, ok)
	require.NoError(p, orders.AddOrders(p.ctx(),
		order.Order{ID: order.ID(longText + hostileText), Party: s, Payload: []byte(secret), Key: hostileText},
		order.Order{ID: "bad", Party: "party", Payload: []byte(secret), Urgent: true},
	))
	done, err := orders.FailOrders(p.ctx(), []order.Verdict{{
		Ref: order.Ref{ID: "bad", Version: 1}, State: order.Quarantined, Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: hostileText},
	}})
	require.NoError(p, err)
	require.Equal(p, []bool{true}, done)
	require.NoError(p, new(texts.Presence).Show(p.ctx(), p.st, store.Instance{
		ID: "1", Name: hostileText[:60], Version: hostileText, Ledger: hostileText, Claims: 1,
		Settings: map[string]string{hostileText: hostileText}, Loops: map[string]time.Duration{hostileText: time.Second},
	}))
	require.NoError(p, new(texts.Presence).Show(p.ctx(), p.st, store.Instance{
		ID: "2", Name: hostileText[:59], Paused: true, Pauses: []store.Pause{{Ledger: hostileText, All: true, Kind: batch.ErrorKind(hostileText), Why: hostileText}},
		Unserved: []store.Unserved{{Service: batch.ServiceID(hostileText), Why: hostileText}},
	}))
	_, err = texts.Refresh(p.ctx(), p.st, store.RefreshQuery{By: hostileText[:60]})
	require.NoError(p, err)
	was, err := texts.Read(p.ctx(), p.st, store.TextTraits, traits.Name)
	require.NoError(p, err)
	record, err := relied.Read(was.Body)
	require.NoError(p, err)
	record.Strategy = hostileText
	agreed, err := record.WithAgreement(by).Text()
	require.NoError(p, err)
	_, err = texts.Put(p.ctx(), p.st, store.Text{Kind: store.TextTraits, Name: traits.Name, Body: agreed})
	require.NoError(p, err)
	_, err = operator.NewBulks(p.desk()).Begin(p.ctx(), p.preview("more"), by)
	require.NoError(p, err)
	return s
}

// Every page that links lead to from the first page exists, is complete and labelled, and shows
// hostile names as text.
func TestEveryPage(t *testing.T) {
	inStores(t, func(p *person) {
		s := p.fillWithTrouble()
		seen, shapes := map[string]bool{}, map[string]int{}
		for _, extra := range []string{
			"search", "search?q=" + url.QueryEscape(string(s)), "search?q=nothing", "search?q=" + url.QueryEscape(hostileText),
			"bulk?action=requeue", "bulk?action=cancel&quarantined=1", "bulk?action=decide&ruling=committed", "bulks", "audit?lane=", "orders?batch=more", "lanes?held=1", "",
		} {
			queue := []string{p.url + extra}
			for len(queue) > 0 {
				address := queue[0]
				queue = queue[1:]
				shape := shapeOf(address)
				if seen[address] || shapes[shape] == 12 {
					continue
				}
				seen[address] = true
				shapes[shape]++
				page := p.request(http.MethodGet, address, nil)
				assert.Equal(p, http.StatusOK, page.status, "%s: %s", address, page.text())
				for _, a := range page.descendants("a") {
					to := page.url.ResolveReference(must(url.Parse(a.attrs["href"])))
					to.Fragment = ""
					assert.True(p, strings.HasPrefix(to.String(), p.url), "%s leads out of the prefix", to)
					queue = append(queue, to.String())
				}
			}
		}
		for _, want := range []string{
			"/", "/lanes?", "/lane?service", "/lane?all", "/batches?", "/batch?id,service", "/orders?", "/bulk?", "/bulks?", "/progress?token", "/progress?keep,token", "/instances?", "/audit?", "/search?q",
		} {
			assert.Positive(p, shapes[strings.TrimSuffix(mountPath+want, "?")], "%s in %v", want, shapes)
		}
		assert.Contains(p, p.get(pageLink("batch", "service", string(s), "id", longText+hostileText)).text(), hostileText)
	})
}

// shapeOf returns an address without the values of its query.
func shapeOf(address string) string {
	u := must(url.Parse(address))
	var names []string
	for name := range u.Query() {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return u.Path
	}
	return u.Path + "?" + strings.Join(names, ",")
}

func pageLink(page string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return page + "?" + q.Encode()
}

// The pages of an empty store say that it is empty.
func TestEmptyStore(t *testing.T) {
	inStores(t, func(p *person) {
		for page, says := range map[string]string{
			"": "Nobody has counted yet", "lanes": "No batch is open", "lanes?held=1": "No lane is held", "batches": "No batch is like this",
			"orders": "Orders are there only where auto-batching is used", "instances": "No instance has shown itself", "audit": "Nobody has done anything",
			"bulks":          "Nobody has begun one",
			"lane?service=s": "No batch of the lane is open", "search?q=x": "No batch or order has this id",
		} {
			assert.Contains(p, p.get(page).text(), says, page)
		}
		got := p.request(http.MethodGet, p.url+"batch?service=s&id=none", nil)
		assert.Equal(p, http.StatusNotFound, got.status)
		assert.Contains(p, got.text(), "never stored, or retention has removed it")
		for _, bad := range []string{"batch?id=", "batches?after=x", "batches?after=MSAA", "orders?after=MSD_", "batches?state=lost", "orders?state=lost", "instances?from=-1", "lane?service=%00", "lanes?held=1&after=%ff", "lanes?from=-1", "lanes?sort=luck", "lanes?state=odd", "audit?service=%01"} {
			assert.Equal(p, http.StatusBadRequest, p.request(http.MethodGet, p.url+bad, nil).status, bad)
		}
		assert.Equal(p, http.StatusNotFound, p.request(http.MethodGet, p.url+"nowhere", nil).status)
		assert.Equal(p, http.StatusMethodNotAllowed, p.request(http.MethodDelete, p.url+"lanes", nil).status)
	})
}

// A list shows a hundred rows on a page, with a link to the next page, and these links reach all
// rows. A page of ten thousand rows is no longer than a page of a few.
func TestLongLists(t *testing.T) {
	p := newPerson(t)
	p.add("s", orderedIDs(10_000)...)
	var orders []order.Order
	for i := range 250 {
		lane := batch.ServiceID(fmt.Sprintf("lane %03d", i))
		require.NoError(t, p.st.Add(p.ctx(), batch.Batch{Service: lane, ID: batch.ID(lane), Payload: []byte("x")}))
		_, _, err := p.st.Steer(p.ctx(), store.Steering{Scope: batch.Only(lane), Action: batch.ActionPause, By: ada})
		require.NoError(t, err)
		orders = append(orders, order.Order{ID: order.ID(lane), Party: lane, Payload: []byte("x")})
		require.NoError(t, new(texts.Presence).Show(p.ctx(), p.st, store.Instance{ID: string(lane), Name: string(lane)}))
	}
	require.NoError(t, p.st.(order.Store).AddOrders(p.ctx(), orders...))
	for page, want := range map[string]int{"batches": 500, "lanes": 251, "lanes?held=1": 250, "orders": 250, "instances": 250} {
		t.Run(page, func(t *testing.T) {
			found := 0
			for s := p.get(page); ; s = p.followLink(s, "The next page") {
				assert.Less(t, len(s.html), 200_000)
				n := len(s.descendants("main")[0].descendants("table")[0].descendants("tbody")[0].descendants("tr"))
				require.LessOrEqual(t, n, 100)
				require.Positive(t, n)
				found += n
				if page == "batches" && found == want {
					break // 9,750 more follow
				}
				if !strings.Contains(s.text(), "The next page") {
					assert.Contains(t, p.followLink(s, "The first page").text(), "The next page")
					break
				}
			}
			assert.Equal(t, want, found)
		})
	}
	for _, page := range []string{"", "lane?service=s", "audit"} {
		assert.Less(t, len(p.get(page).html), 200_000, page)
	}
	assert.Contains(t, p.get("").text(), "1000 or more")
}

// brokenStore is a store that fails with errors that quote a secret.
type brokenStore struct {
	store.Store
	err error
}

func (b *brokenStore) Survey(context.Context, store.SurveyQuery) (store.Survey, error) {
	return store.Survey{}, b.err
}

// storeWithoutSteer is a store whose acts upon lanes fail.
type storeWithoutSteer struct {
	store.Store
	err error
}

func (s *storeWithoutSteer) Steer(context.Context, store.Steering) (batch.Control, bool, error) {
	return batch.Control{}, false, s.err
}

// The text of a store's error is in the log and on no page.
func TestTheStoreFails(t *testing.T) {
	st := memory.New()
	err := errors.New("dial postgres://ada:" + secret + "@db/queue: refused")
	p := newPersonFor(t, st, &brokenStore{st, err}, byHeader)
	for _, page := range []string{"", "lanes", "batch?service=s&id=b", "search?q=x"} {
		got := p.request(http.MethodGet, p.url+page, nil)
		assert.Equal(t, http.StatusServiceUnavailable, got.status, page)
		assert.Contains(t, got.text(), "was not reached, or gave an error")
	}
	assert.Contains(t, p.log.String(), "refused")

	p = newPersonFor(t, st, &storeWithoutSteer{st, err}, byHeader)
	form := reasonFields()
	form["confirm"] = "pause" // the store does not know the lane
	got := p.submit(p.get("lane?service=s"), "Pause", form)
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.Contains(t, got.text(), "It is not known whether the act was done")
}

// countingStore counts surveys of lanes.
type countingStore struct {
	store.Store
	surveys     int
	fullSurveys int           // surveys of all lanes
	surveyTime  time.Duration // how long each takes
}

func (c *countingStore) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	c.surveys++
	if q.Start {
		c.fullSurveys++
		time.Sleep(c.surveyTime)
	}
	return c.Store.Survey(ctx, q)
}

// Fifty people who have the first page open, and reload it, cause no more surveys of the lanes
// than one.
func TestManyVisitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New()}
		h, err := console.New(st, nil)
		require.NoError(t, err)
		visit := func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			assert.Equal(t, http.StatusOK, w.Code)
		}
		visit()
		once := st.surveys
		require.Positive(t, once)
		for range 50 {
			visit()
		}
		assert.Equal(t, once, st.surveys)
		time.Sleep(time.Second)
		visit()
		assert.Equal(t, 2*once, st.surveys)
	})
}

// Fifty pages that are kept up to date, each every half minute, cause at most one survey of the
// lanes in half a minute. A person who reloads sees the present state.
func TestPagesKeptUpToDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New()}
		h, err := console.New(st, nil)
		require.NoError(t, err)
		visit := func(page string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, page, nil))
			assert.Equal(t, http.StatusOK, w.Code)
			return w
		}
		assert.Equal(t, "30", visit("/?keep=1").Header().Get("Refresh"))
		once := st.surveys
		for i := range 50 * 20 { // ten minutes
			time.Sleep(30 * time.Second / 50)
			if i%50 < 25 {
				visit("/?keep=1")
			}
		}
		assert.LessOrEqual(t, st.surveys, 21*once)
		assert.GreaterOrEqual(t, st.surveys, 15*once)
		before := st.surveys
		time.Sleep(2 * time.Second)
		page := visit("/")
		assert.Greater(t, st.surveys, before)
		assert.Empty(t, page.Header().Get("Refresh"))

		list := visit("/batches?show=all&keep=1")
		assert.Equal(t, "30", list.Header().Get("Refresh"))
		assert.Contains(t, list.Body.String(), `id="live" href="batches?show=all" data-look="`)
		assert.Contains(t, visit("/batches?show=all").Body.String(), `id="live" href="batches?keep=1&amp;show=all" data-look="`)
		lane := visit("/lane?service=s&keep=1") // reading this page again would lose its form
		assert.Empty(t, lane.Header().Get("Refresh"))
		assert.Contains(t, lane.Body.String(), `id="live" href="lane?keep=1&amp;service=s" data-look="`)
	})
}

// Where a survey takes long, the consoles of all processes read a kept one; after an act the next
// visitor gets a new survey.
func TestALookThatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &countingStore{Store: memory.New(), surveyTime: time.Second}
		visit := func(h http.Handler) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			assert.Equal(t, http.StatusOK, w.Code)
			return w.Body.String()
		}
		var consoles []*console.Console
		for range 3 {
			h, err := console.New(st, &console.Options{Actor: func(*http.Request) (string, error) { return "ada", nil }})
			require.NoError(t, err)
			consoles = append(consoles, h)
		}
		visit(consoles[0])
		looks := st.fullSurveys
		time.Sleep(30 * time.Second)
		for _, h := range consoles[1:] {
			assert.Contains(t, visit(h), "This look is 30 s old")
		}
		assert.Equal(t, looks, st.fullSurveys)
		form := url.Values{"do": {"pause"}, "service": {"s"}, "version": {"0"}, "reason": {"r"}, "confirm": {"pause"}}
		r := httptest.NewRequest(http.MethodPost, "/act", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		consoles[1].ServeHTTP(w, r)
		require.Equal(t, http.StatusSeeOther, w.Code)
		visit(consoles[1])
		assert.Equal(t, looks+1, st.fullSurveys)
		time.Sleep(2 * time.Second)
		assert.Contains(t, visit(consoles[2]), "This look is 2 s old")
	})
}

// bareStore is a store with only the abilities that delivery needs.
type bareStore struct {
	store.Unimplemented
	store.Delivery
}

// For a store that lacks abilities the pages say so.
func TestAStoreThatLacksAbilities(t *testing.T) {
	st := memory.New()
	p := newPersonFor(t, st, bareStore{Delivery: st}, byHeader)
	for _, page := range []string{"", "lanes", "batches", "batch?service=s&id=b", "orders", "instances", "audit", "search?q=x", "lane?service=s", "bulk?action=cancel", "bulks", "progress?token=x"} {
		got := p.request(http.MethodGet, p.url+page, nil)
		assert.Equal(t, http.StatusNotImplemented, got.status, page)
		assert.Contains(t, got.text(), "lacks the ability", page)
	}
}

// A search finds a batch and an order by their ids and their callers' keys, and a lane by its
// name: by the whole text, or by its beginning.
func TestSearch(t *testing.T) {
	inStores(t, func(p *person) {
		require.NoError(p, p.st.Add(p.ctx(), batch.Batch{Service: "s", ID: "b1", Payload: []byte("x"), DataChangeID: "change 7"}))
		p.add("s", "b2")
		require.NoError(p, p.st.(order.Store).AddOrders(p.ctx(), order.Order{ID: "order-1", Party: "service", Payload: []byte("x")}))
		assert.Contains(p, p.get("search?q=b1").text(), "Batch b1")
		assert.Contains(p, p.get("search?q=change+7").text(), "Batch b1", "a key without its lane")
		assert.Contains(p, p.get("search?q=chan").text(), "Batch b1", "the one that begins so")
		assert.Contains(p, p.followLink(p.get("search?q=+s+"), "service").text(), "Lane service")
		assert.Contains(p, p.get("search?q=se").text(), "Lane service")
		assert.Contains(p, p.get("search?q=order").text(), "order-1")
		b := p.get("search?q=b")
		assert.Contains(p, p.followLink(b, "b2").text(), "Batch b2")
		assert.Contains(p, p.get("search?q=none").text(), "No batch or order has this id")

		for q, want := range map[string][]string{"chan": {"batch key change 7 s queued"}, "s": {"lane s  ", "lane service  "}, "ord": {"order id order-1 service queued"}, "": nil} {
			answer := p.request(http.MethodGet, p.url+"search.json?q="+q, nil)
			require.Equal(p, "application/json", answer.header.Get("Content-Type"))
			var got struct {
				Hits []struct{ Kind, Name, Lane, State, Href string }
				More bool
			}
			require.NoError(p, json.Unmarshal([]byte(answer.html), &got))
			var lines []string
			for _, h := range got.Hits {
				lines = append(lines, strings.Join([]string{h.Kind, h.Name, h.Lane, h.State}, " "))
				assert.Equal(p, http.StatusOK, p.request(http.MethodGet, p.url+h.Href, nil).status, h.Href)
			}
			assert.Equal(p, want, lines)
		}
	})
}

// For a batch that retention removed, the search and the page show what is kept of it, and offer
// no act.
func TestARemovedBatch(t *testing.T) {
	inStores(t, func(p *person) {
		p.recordServing(nil, "s")
		require.NoError(p, p.st.Add(p.ctx(), batch.Batch{Service: "s", ID: "b1", Payload: []byte("x"), DataChangeID: "change 7"}))
		p.endAttempt("s", store.Refused, "not valid")
		pruned, err := p.st.Prune(p.ctx(), store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
		require.NoError(p, err)
		require.Equal(p, 1, pruned.Batches)
		for _, page := range []string{"search?q=b1", "search?q=change+7"} {
			text := p.get(page).text()
			assert.Contains(p, text, "Retention has removed the batch")
			assert.Contains(p, text, "Removed by retention")
			assert.Contains(p, text, "not valid")
			assert.NotContains(p, text, "Requeue")
			assert.NotContains(p, text, "Nobody has acted")
		}
	})
}

// One list shows the acts upon all batches and lanes, newest first, a hundred on a page.
func TestAudit(t *testing.T) {
	inStores(t, func(p *person) {
		for i := range 40 {
			lane := batch.ServiceID(fmt.Sprintf("lane %02d", i))
			p.add(lane, batch.ID("in "+lane))
			now, _, err := p.st.Steer(p.ctx(), store.Steering{Scope: batch.Only(lane), Action: batch.ActionPause, By: ada})
			require.NoError(p, err)
			_, _, err = p.st.Steer(p.ctx(), store.Steering{Scope: now.Scope, Action: batch.ActionSetPolicy, Policy: batch.PolicyHalt, Seen: now.Version, By: ada})
			require.NoError(p, err)
			seen := p.readRecord(lane, batch.ID("in "+lane))
			_, err = p.st.Cancel(p.ctx(), seen, batch.By{Actor: "bob", Reason: "reason " + string(lane)})
			require.NoError(p, err)
		}
		_, _, err := p.st.Steer(p.ctx(), store.Steering{Scope: batch.Everything(), Action: batch.ActionPause, By: ada})
		require.NoError(p, err)
		first := p.get("audit")
		rows := func(s shownPage) []*element {
			return s.descendants("main")[0].descendants("tbody")[0].descendants("tr")
		}
		require.Len(p, rows(first), 100)
		assert.Contains(p, rows(first)[0].text(), "everything")
		// Of acts at the same time, those upon lanes come first.
		assert.Contains(p, first.descendants("main")[0].text(), "reason lane 39", "of a batch that nobody named")
		rest := p.followLink(first, "The next page")
		require.Len(p, rows(rest), 21)
		assert.Contains(p, rows(rest)[20].text(), "pause")
		assert.Contains(p, rows(rest)[20].text(), "lane 00")
		assert.NotContains(p, rest.text(), "The next page")
		p.followLink(rest, "The first page")
		assert.Equal(p, http.StatusBadRequest, p.request(http.MethodGet, p.url+"audit?after=x", nil).status)
		one := p.get("audit?service=lane+07")
		require.Len(p, rows(one), 2, "a lane's own")
		assert.Contains(p, rows(one)[0].text(), "set policy", "the newest first")
	})
}

// A list of orders has a column for keys once one of its orders has a key.
func TestOrdersShowTheirKeys(t *testing.T) {
	inStores(t, func(p *person) {
		orders := p.st.(order.Store)
		require.NoError(p, orders.AddOrders(p.ctx(), order.Order{ID: "o1", Party: "p", Payload: []byte("x")}))
		assert.NotContains(p, p.get("orders").descendants("thead")[0].text(), "Key")
		require.NoError(p, orders.AddOrders(p.ctx(), order.Order{ID: "o2", Party: "p", Key: "invoice 4711", Payload: []byte("x")}))
		assert.Contains(p, p.get("orders").descendants("tbody")[0].text(), "invoice 4711")
	})
}
