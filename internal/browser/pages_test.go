package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// longID returns an id of the length that ledgers use.
func longID(n int) batch.ID {
	return batch.ID(strings.Repeat(fmt.Sprintf("%02x7f3ac91e5d02b8", n), 8))
}

// fillWithTrouble fills the store as on a busy system in which many things have gone wrong.
func (s *stagedConsole) fillWithTrouble() {
	s.Helper()
	fault := func(a batch.Attempt) memory.Fault {
		switch {
		case a.Service == "orders" && a.ID == longID(1):
			return memory.Fault{Kind: memory.LostRequest}
		case a.Service == "refunds", a.Service == "invoices":
			return memory.Fault{Kind: memory.Rejected}
		}
		return memory.Fault{}
	}
	steer := func(st store.Steering) {
		st.By = bob
		_, _, err := s.st.Steer(s.Context(), st)
		require.NoError(s, err)
	}
	steer(store.Steering{Scope: batch.Only("refunds"), Action: batch.ActionSetPolicy, Policy: batch.PolicyHalt})
	steer(store.Steering{Scope: batch.Only("invoices"), Action: batch.ActionSetPolicy, Policy: batch.PolicyQuarantine})
	stop := s.runInstance("worker-1", faultyLedger(false, fault), dltbatch.Options{Strategy: queuer.Parallel(0)})
	var done []batch.Batch
	for n := range 30 {
		done = append(done, newBatch(batch.ServiceID(fmt.Sprintf("payments-%02d", n%7)), longID(100+n), fmt.Sprint(n)))
	}
	s.add(done...)
	s.add(newBatch("orders", longID(1), "account/17"), newBatch("orders", longID(2), "account/17"), newBatch("orders", longID(3), "account/17"), newBatch("orders", longID(4), "account/18"),
		newBatch("refunds", longID(5)), newBatch("refunds", longID(6)), newBatch("invoices", longID(7)))
	s.waitUntilUndecided("orders", longID(1))
	s.waitUntil("the others", func() bool {
		return s.readRecord("refunds", longID(5)).Final() && s.readRecord("invoices", longID(7)).Final() && s.readRecord("orders", longID(4)).Final() && s.readRecord("payments-01", longID(129)).Final()
	})
	stop()
	steer(store.Steering{Scope: batch.Only("payments-03"), Action: batch.ActionPause})
	for n := range 40 {
		s.add(newBatch(batch.ServiceID(fmt.Sprintf("payments-%02d", n%7)), longID(150+n), fmt.Sprint(n)))
	}
	require.NoError(s, s.st.AddOrders(s.Context(), order.Order{ID: "order-4711", Party: "acme", Payload: []byte("x")}, order.Order{ID: "order-4712", Party: "acme", Payload: []byte("x")}))
	_, err := s.st.FailOrders(s.Context(), []order.Verdict{{
		Ref: order.Ref{ID: "order-4711", Version: 1}, State: order.Quarantined,
		Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: "unknown asset"},
	}})
	require.NoError(s, err)
	lane := batch.ServiceID("payments-04")
	sel, err := s.desk().Preview(s.Context(), operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Service: &lane}})
	require.NoError(s, err)
	_, err = operator.NewBulks(s.desk()).Begin(s.Context(), sel, bob)
	require.NoError(s, err)
	s.addInstances()
	s.countNow()
	s.exec(`UPDATE dltbatch_texts SET body = json_set(body, '$.detail.earlier', json(?)) WHERE kind = 'stats'`, s.earlierCounts())
}

func (s *stagedConsole) desk() *operator.Desk {
	s.Helper()
	d, err := operator.New(s.st)
	require.NoError(s, err)
	return d
}

// addInstances writes the rows of two live instances and of one that has gone.
func (s *stagedConsole) addInstances() {
	settings := map[string]string{"Strategy": "*queuer.Parallel", "ClaimTTL": "1m0s", "Policy": "continue"}
	for n, name := range []string{"worker-1", "worker-2", "worker-3"} {
		i := store.Instance{ID: name, Name: name, Version: "v1.4.0", Ledger: "memory", Claims: 2 + n, Settings: settings, Loops: map[string]time.Duration{"queuer": time.Second}}
		for k := range store.MaxFlows {
			wave := time.Duration((k*7+n*3)%5) * time.Millisecond
			f := store.Flow{Ago: time.Duration(store.MaxFlows-1-k) * 15 * time.Second, Took: 15 * time.Second, Final: 300 - 4*k + int(wave/time.Millisecond)*6}
			f.Queue = store.Times{N: f.Final, Sum: time.Duration(f.Final) * time.Duration(k*k) * 40 * time.Millisecond, Max: time.Duration(k) * time.Second}
			f.Flight = store.Times{N: f.Final, Sum: time.Duration(f.Final) * (18*time.Millisecond + wave), Max: 90 * time.Millisecond}
			f.Finality = store.Times{N: f.Final, Sum: time.Duration(f.Final) * (2*time.Second + 100*wave), Max: 4 * time.Second}
			i.Flows = append(i.Flows, f)
		}
		if n == 2 {
			i.Flows = nil
		}
		require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, i))
	}
	s.exec(`UPDATE dltbatch_texts SET begun_at = begun_at - 86400000000 WHERE kind = 'instance'`)
	s.exec(`UPDATE dltbatch_texts SET changed_at = changed_at - 400000000 WHERE kind = 'instance' AND name = 'worker-3'`)
}

// refreshInstances makes the live instances seen now, as they do themselves every 15 s.
func (s *stagedConsole) refreshInstances() {
	s.exec(`UPDATE dltbatch_texts SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) WHERE kind = 'instance' AND name <> 'worker-3'`)
}

// earlierCounts returns earlier counts from which the queue has grown.
func (s *stagedConsole) earlierCounts() string {
	last := s.stats().OpenAt()
	all := make([]store.OpenAt, store.MaxFlows)
	for k := range all {
		ago := len(all) - k
		all[k] = store.OpenAt{At: last.At.Add(time.Duration(-15*ago) * time.Second), Open: max(k, last.Open*(20+k)/40)}
	}
	text, err := json.Marshal(all)
	require.NoError(s, err)
	return string(text)
}

// visitedPage is a page that the tests visit.
type visitedPage struct {
	name string // of its picture
	path string
	// endsWithToken is true if the path ends with the token of the open bulk action.
	endsWithToken bool
	// goOn goes on from the page to the one that is checked; nil if that is the page itself.
	goOn func(p *person)
}

func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "?" + q.Encode()
}

func pages() []visitedPage {
	return []visitedPage{
		{name: "home"},
		{name: "kept", path: "?keep=1"},
		{name: "lanes", path: "lanes"},
		{name: "held", path: "lanes?held=1"},
		{name: "lane", path: "lane" + query("service", "orders")},
		{name: "everything", path: "lane?all=1"},
		{name: "batches", path: "batches"},
		{name: "batch", path: "batch" + query("service", "orders", "id", string(longID(1)))},
		{name: "refused-batch", path: "batch" + query("service", "invoices", "id", string(longID(7)))},
		{name: "orders", path: "orders"},
		{name: "refused", path: "orders?state=quarantined"},
		{name: "search", path: "search" + query("q", string(longID(150)[:1]))},
		{name: "preview", path: "bulk?action=cancel&service=payments-03&state=queued"},
		{name: "report", path: "bulk?action=cancel&service=payments-03&state=queued", goOn: func(p *person) {
			p.typeInto("bulk-reason", ticketReason)
			p.typeInto("bulk-confirm", "6")
			p.pressButton("Carry it out: cancel")
		}},
		{name: "bulks", path: "bulks"},
		{name: "progress", path: "progress?token=", endsWithToken: true},
		{name: "instances", path: "instances"},
		{name: "history", path: "audit"},
		{name: "done", path: "lane?service=refunds", goOn: func(p *person) {
			p.typeInto("release-reason", ticketReason)
			p.typeInto("release-confirm", "release")
			p.pressButton("Release")
		}},
		{name: "wrong", path: "batch?service=orders&id=none"},
	}
}

// preferDark makes the browser prefer dark pages, or light ones.
func preferDark(on bool) chromedp.Action[chromedp.Void] {
	value := map[bool]string{false: "light", true: "dark"}[on]
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
		})
		return chromedp.Void{}, err
	}
}

// axeFinding is a fault that axe found.
type axeFinding struct {
	ID, Help string
	Nodes    []struct {
		HTML           string
		FailureSummary string `json:"failureSummary"`
	}
}

// evaluate evaluates an expression in the page, waits for its promise, and returns the result.
func evaluate[T any](p *person, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeLimit)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p, err)
	return got
}

// axeFindings returns the faults that axe finds on the present page, by WCAG 2.2 AA and its own
// best practices.
func (p *person) axeFindings() (all []axeFinding) {
	p.Helper()
	text := evaluate[string](p, chrome.axe+`;axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => JSON.stringify(r.violations))`)
	require.NoError(p, json.Unmarshal([]byte(text), &all))
	return all
}

// axe finds no fault on any page, in the light and in the dark theme; on a phone no page is wider
// than the screen; and the browser reports no breach of the content security policy.
func TestPages(t *testing.T) {
	s := newStagedConsole(t)
	s.fillWithTrouble()
	p := s.newPerson()
	for _, pg := range pages() {
		t.Run(pg.name, func(t *testing.T) {
			p := &person{stagedConsole: &stagedConsole{T: t, st: s.st, db: s.db, file: s.file, url: s.url}, ctx: p.ctx}
			s.refreshInstances()
			p.visit(pg)
			for _, night := range []bool{false, true} {
				p.run(preferDark(night))
				for _, f := range p.axeFindings() {
					assert.Failf(t, f.ID, "%s (dark: %t)\n%+v", f.Help, night, f.Nodes)
				}
			}
			p.run(preferDark(false), chromedp.EmulateViewport(360, 700))
			assert.LessOrEqual(t, evaluate[int](p, `document.documentElement.scrollWidth`), 360, "wider than a phone")
			p.run(chromedp.EmulateViewport(1200, 900))
			if pg.name == "kept" { // its script runs, and the policy lets it open a stream
				assert.Equal(t, "Pause live", evaluate[string](p, `document.querySelector('#live').textContent.trim()`))
				assert.NotEmpty(t, evaluate[string](p, `new Promise((heard, failed) => {
					const stream = new EventSource('live');
					stream.addEventListener('look', event => { stream.close(); heard(event.data); });
					stream.onerror = () => failed('no stream');
				})`))
			}
			assert.Equal(t, 1, evaluate[int](p, `document.scripts.length`))
			if *pictureFolder != "" && pg.name != "kept" {
				p.takePictures(pg.name)
			}
			p.run(preferDark(false))
		})
	}
}

// visit opens a page, and does the steps in then.
func (p *person) visit(pg visitedPage) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeLimit)
	defer cancel()
	path := pg.path
	if pg.endsWithToken {
		all, err := operator.NewBulks(p.desk()).List(p.Context())
		require.NoError(p, err)
		for _, b := range all {
			if b.State == operator.BulkOpen {
				path += b.Token
			}
		}
	}
	got, err := chromedp.RunResponse(ctx, chromedp.Navigate(p.url+path))
	require.NoError(p, err)
	require.Less(p, got.Status, int64(500))
	require.Equal(p, pg.name == "wrong", got.Status >= 400, got.Status)
	if pg.goOn != nil {
		pg.goOn(p)
	}
}

// takePictures takes pictures of the whole page: light, dark, and on a phone.
func (p *person) takePictures(name string) {
	p.Helper()
	for _, of := range []struct {
		suffix string
		wide   int64
		dark   bool
	}{{"", 1280, false}, {"-dark", 1280, true}, {"-phone", 390, false}} {
		ctx, cancel := context.WithTimeout(p.ctx, pageTimeLimit)
		defer cancel()
		p.run(preferDark(of.dark), chromedp.EmulateViewport(of.wide, 720))
		png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		require.NoError(p, err)
		small, err := shrinkPicture(png)
		require.NoError(p, err)
		require.NoError(p, os.WriteFile(filepath.Join(*pictureFolder, name+of.suffix+".png"), small, 0o644))
	}
	p.run(chromedp.EmulateViewport(1200, 900))
}

// axe finds a fault that was made on purpose: a field without a name.
func TestFaultsAreFound(t *testing.T) {
	p := newStagedConsole(t).newPerson()
	p.open("")
	require.Empty(t, p.axeFindings())
	evaluate[bool](p, `document.querySelector('label[for=q]').remove(), document.getElementById('q').removeAttribute('placeholder'), true`)
	faults := p.axeFindings()
	require.NotEmpty(t, faults)
	assert.Equal(t, "label", faults[0].ID)
}

// The script switches the theme and keeps it, and adds a button to each id that copies the id. A
// first page that is kept up to date shows changes, until a person pauses this.
func TestScript(t *testing.T) {
	s := newStagedConsole(t)
	s.add(newBatch("orders", "b1"))
	p := s.newPerson()
	p.run(preferDark(false))
	p.open("batches")
	assert.Equal(t, 1, evaluate[int](p, `document.querySelectorAll('td .copy').length`))
	back := `getComputedStyle(document.body.parentElement).backgroundColor`
	day := evaluate[string](p, back)
	p.clickElement("theme")
	night := evaluate[string](p, back)
	assert.NotEqual(t, day, night)
	p.open("lanes")
	assert.Equal(t, night, evaluate[string](p, back), "on the next page, too")
	p.clickElement("theme")
	assert.Equal(t, day, evaluate[string](p, back))

	p.open("")
	assert.Equal(t, "Pause live", evaluate[string](p, `document.querySelector('#live').textContent.trim()`))
	evaluate[bool](p, `document.body.dataset.same = 'page'; true`)
	_, _, err := s.st.Steer(t.Context(), store.Steering{Scope: batch.Only("orders"), Action: batch.ActionPause, By: bob})
	require.NoError(t, err)
	evaluate[bool](p, `fetch('act', {method: 'POST', body: new URLSearchParams({do: 'pause', service: 'other', version: '0', reason: 'r'})}).then(() => true)`)
	p.waitUntil("the new look", func() bool { return strings.Contains(p.text(), "By bob") })
	assert.Equal(t, "page", evaluate[string](p, `document.body.dataset.same`), "it was not loaded again")
	p.open("audit")
	pauses := func(service batch.ServiceID) {
		s.add(newBatch(service, batch.ID(service)))
		status := evaluate[int](p, `fetch('act', {method: 'POST', body: new URLSearchParams({do: 'pause', service: '`+string(service)+`', version: '0', reason: 'r'})}).then(answer => answer.status)`)
		assert.Equal(t, http.StatusOK, status)
	}
	pauses("seen")
	p.waitUntil("the new act", func() bool { return strings.Contains(p.text(), "seen") })
	p.open("lane?service=orders") // a reason that is half typed stays
	p.typeInto("resume-reason", "half a")
	evaluate[bool](p, `document.getElementById('band').dataset.old = 'old'; true`)
	pauses("latest")
	p.waitUntil("the next read", func() bool {
		return evaluate[string](p, `document.getElementById('band').dataset.old ?? 'new'`) == "new"
	})
	assert.Equal(t, "half a", evaluate[string](p, `document.getElementById('resume-reason').value`))
	p.open("")
	p.clickElement("live")
	assert.Equal(t, "Go live", evaluate[string](p, `document.querySelector('#live').textContent.trim()`))
	p.open("")
	assert.Equal(t, "Go live", evaluate[string](p, `document.querySelector('#live').textContent.trim()`), "it stays paused")

	// Typing words into the search opens no page, and neither does choosing a suggestion that
	// several hits share.
	s.add(batch.Batch{Service: "orders", ID: "k1", DataChangeID: "4711", Payload: []byte("p")}, batch.Batch{Service: "orders", ID: "k2", DataChangeID: "47112", Payload: []byte("p")},
		batch.Batch{Service: "other", ID: "k3", DataChangeID: "4711", Payload: []byte("p")})
	offered := func() {
		p.waitUntil("the hits", func() bool { return evaluate[int](p, `document.querySelectorAll('#hits option').length`) > 0 })
	}
	p.typeInto("q", "4711")
	offered()
	evaluate[bool](p, `document.getElementById('q').dispatchEvent(new InputEvent('input', {inputType: 'insertText'}))`)
	assert.NotContains(t, evaluate[string](p, `location.href`), "batch")
	evaluate[bool](p, `const q = document.getElementById('q'); q.form.addEventListener('submit', event => { event.preventDefault(); document.body.dataset.searched = 'yes'; }); q.dispatchEvent(new InputEvent('input', {inputType: 'insertReplacementText'}))`)
	assert.Equal(t, "yes", evaluate[string](p, `document.body.dataset.searched`))

	// A page whose stream fails says that it is not kept up to date, until it is read again.
	p.clickElement("live")
	p.waitUntil("a read", func() bool { return !strings.Contains(p.text(), "Not kept up to date") })
	s.isAway.Store(true)
	evaluate[bool](p, `fetch('act', {method: 'POST', body: new URLSearchParams({do: 'pause', service: 'third', version: '0', reason: 'r'})}).then(() => true)`)
	p.waitUntil("the mark", func() bool { return strings.Contains(p.text(), "Not kept up to date since") })
	s.isAway.Store(false)
	p.waitUntil("a read", func() bool { return !strings.Contains(p.text(), "Not kept up to date") })
}
