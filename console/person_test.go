package console_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

var ada = batch.By{Actor: "ada", Reason: "ticket 17"}

// mountPath is the path at which the console is mounted.
const mountPath = "/ops/queue"

// person is a browser that shows the console of a store.
type person struct {
	*testing.T
	st     store.Store
	client *http.Client
	url    string // of the first page
	name   string // "" for a visitor without a name
	clicks int
	log    *strings.Builder
	pages  *console.Console
}

// byHeader is an Actor function that takes the name from a header which the application's proxy
// sets.
func byHeader(r *http.Request) (string, error) {
	name := r.Header.Get("X-User")
	if name == "" {
		return "", fmt.Errorf("no session: token=%s", secret)
	}
	return name, nil
}

// secret is a text that no page may show.
const secret = "hunter2-Zq"

// newPersonFor returns a person for a console over the store s, which may wrap st.
func newPersonFor(t *testing.T, st store.Store, s store.Store, actor func(*http.Request) (string, error)) *person {
	return newPersonWith(t, st, s, &console.Options{Actor: actor})
}

// newPersonWith returns a person for a console with any options; the console logs into the
// person's log.
func newPersonWith(t *testing.T, st store.Store, s store.Store, o *console.Options) *person {
	p := &person{T: t, st: st, name: "ada", log: &strings.Builder{}}
	o.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	h, err := console.New(s, o)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(mountPath+"/", http.StripPrefix(mountPath, h))
	server := httptest.NewServer(mux)
	p.url = server.URL + mountPath + "/"
	p.client = server.Client()
	p.pages = h
	t.Cleanup(h.Close)
	t.Cleanup(server.Close)
	return p
}

func newPerson(t *testing.T) *person {
	st := memory.New()
	return newPersonFor(t, st, st, byHeader)
}

// inStores runs a test on the memory store and on SQLite.
func inStores(t *testing.T, run func(p *person)) {
	t.Run("memory", func(t *testing.T) { run(newPerson(t)) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		st, err := sqlite.New(db, nil)
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		run(newPersonFor(t, st, st, byHeader))
	})
}

// shownPage is a page as the browser gets it.
type shownPage struct {
	*element
	status int
	url    *url.URL
	header http.Header
	html   string
}

// request sends a request, follows redirects, and checks the page.
func (p *person) request(method, address string, form url.Values, header ...string) shownPage {
	p.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(p.Context(), method, address, body)
	require.NoError(p, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if p.name != "" {
		r.Header.Set("X-User", p.name)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(r)
	require.NoError(p, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p, err)
	s := shownPage{element: &element{}, status: resp.StatusCode, url: resp.Request.URL, header: resp.Header, html: string(text)}
	assert.NotContains(p, s.html, secret)
	assert.Equal(p, "no-store", resp.Header.Get("Cache-Control"), address)
	assert.Empty(p, resp.Header.Values("Set-Cookie"))
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	} {
		assert.Equal(p, []string{want}, resp.Header.Values(name), address)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") && method != http.MethodHead {
		s.element, err = parse(s.html)
		require.NoError(p, err, address)
		assert.Empty(p, s.findFaults(), address)
	}
	return s
}

// get opens a page of the console, which must exist.
func (p *person) get(page string) shownPage {
	p.Helper()
	s := p.request(http.MethodGet, p.url+page, nil)
	require.Equal(p, http.StatusOK, s.status, "%s: %s", page, s.text())
	return s
}

// followLink follows the first link in the main part that has these words.
func (p *person) followLink(s shownPage, words string) shownPage {
	p.Helper()
	for _, a := range s.descendants("main")[0].descendants("a") {
		if strings.TrimSpace(a.text()) == words {
			p.clicks++
			to := p.request(http.MethodGet, s.url.ResolveReference(must(url.Parse(a.attrs["href"]))).String(), nil)
			require.Equal(p, http.StatusOK, to.status, to.text())
			return to
		}
	}
	require.Failf(p, "no such link", "%s in %s", words, s.html)
	return s
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// form returns the address and the fields of the form that has this button; words holds what is
// typed or chosen, by field.
func (p *person) form(s shownPage, button string, words map[string]string) (to *url.URL, fields url.Values) {
	p.Helper()
	for _, f := range s.descendants("form") {
		buttons := f.descendants("button")
		if len(buttons) != 1 || strings.TrimSpace(buttons[0].text()) != button {
			continue
		}
		fields = url.Values{}
		for _, in := range f.descendants("input") {
			if kind := in.attrs["type"]; kind == "hidden" {
				fields.Set(in.attrs["name"], in.attrs["value"])
			} else {
				word, typed := words[in.attrs["name"]]
				if _, required := in.attrs["required"]; required {
					require.True(p, typed, "%s wants %s", button, in.attrs["name"])
				}
				if typed {
					fields.Set(in.attrs["name"], word)
				}
			}
		}
		return s.url.ResolveReference(must(url.Parse(f.attrs["action"]))), fields
	}
	require.Failf(p, "no such form", "%s in %s", button, s.html)
	return nil, nil
}

// submit fills in and sends the form that has this button.
func (p *person) submit(s shownPage, button string, words map[string]string) shownPage {
	p.Helper()
	to, fields := p.form(s, button, words)
	p.clicks++
	return p.request(http.MethodPost, to.String(), fields)
}

func (p *person) ctx() context.Context { return p.Context() }

func (p *person) add(service batch.ServiceID, ids ...batch.ID) {
	p.Helper()
	var all []batch.Batch
	for _, id := range ids {
		all = append(all, batch.Batch{Service: service, ID: id, Payload: []byte("payload " + secret)})
	}
	require.NoError(p, p.st.Add(p.ctx(), all...))
}

func (p *person) readRecord(service batch.ServiceID, id batch.ID) batch.Record {
	p.Helper()
	rec, err := p.st.Get(p.ctx(), batch.Key{Service: service, ID: id})
	require.NoError(p, err)
	return rec
}

var traits = dlt.Traits{Name: "ledger", ResendHarmlessFor: dlt.Forever, ResendQuiet: time.Minute}

// recordServing writes the record of a Runner that serves the services; if other is not nil,
// another Runner has recorded these traits.
func (p *person) recordServing(other *dlt.Traits, services ...batch.ServiceID) {
	p.Helper()
	r := relied.Record{Settings: relied.SettingsOf(services[0], traits, time.Minute, queuer.Serial())}
	for _, s := range services {
		_, err := texts.Serve(p.ctx(), p.st, []texts.Served{{Service: s, Ledger: traits.Name}})
		require.NoError(p, err)
		r = r.Compare(s)
	}
	if other != nil {
		o := relied.SettingsOf(services[0], *other, time.Minute, queuer.Serial())
		r.Other = &o
	}
	text, err := r.Text()
	require.NoError(p, err)
	_, err = texts.Put(p.ctx(), p.st, store.Text{Kind: store.TextTraits, Name: traits.Name, Body: text})
	require.NoError(p, err)
}

// endAttempt claims the first batch of a lane and ends the attempt.
func (p *person) endAttempt(service batch.ServiceID, f store.Finding, message string) store.Claim {
	p.Helper()
	q := store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 1, TTL: time.Minute, Instance: "one"}
	claimed, err := p.st.Claim(p.ctx(), q, queuer.Choose(queuer.Serial(), nil, func(_ batch.ServiceID, err error) { require.NoError(p, err) }))
	require.NoError(p, err)
	require.Len(p, claimed.Runs, 1)
	c := claimed.Runs[0].Batches[0]
	o := store.Outcome{
		Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: f, Attempt: c.Attempt, Back: c.From, Check: time.Second, Delay: time.Hour,
		Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: message},
	}
	if f != store.Accepted {
		o.Report = &batch.Report{Attempt: c.Attempt, Kind: batch.KindRejected, StatusCode: 400, Code: 7, Took: time.Second, Text: message, Endpoint: message, Instance: "one"}
	}
	p.recordOutcome(o)
	return c
}

func (p *person) recordOutcome(o store.Outcome) {
	p.Helper()
	applied, err := p.st.Record(p.ctx(), []store.Outcome{o})
	require.NoError(p, err)
	require.Equal(p, store.Written, applied[0].Result)
}

// makeUndecided makes the first batch of a lane need a decision.
func (p *person) makeUndecided(service batch.ServiceID, message string) {
	p.Helper()
	c := p.endAttempt(service, store.Doubtful, message)
	look, err := p.st.Look(p.ctx(), c.Key, 1)
	require.NoError(p, err)
	p.recordOutcome(store.Outcome{
		Ref: look.Ref, Version: look.Row.Version, By: batch.ByMonitor, Finding: store.Undecidable, Check: time.Second,
		Error: &batch.SubmissionError{Kind: batch.KindDoubt, Message: message},
	})
}
