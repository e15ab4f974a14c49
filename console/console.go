// Package console is package operator in a browser: it shows the batches that stand still, the
// reason, and the remedy, and lets a person act. It is one [net/http.Handler], which needs a store
// and nothing else, no ledger client. The command "dltbatch console" serves it.
//
// The pages are HTML, and every file comes from the handler itself. The one script is small: it
// switches the theme, copies ids, suggests what a search may mean, and keeps the first page up to
// date; nothing needs it. Nothing is loaded from elsewhere, no cookie is set, and no session is
// kept: any number of replicas may answer. Mount it where only operators look, at a pattern that
// ends in a slash, behind the application's own authentication: the console asks for no password.
// All links are relative, so that it works below any prefix.
//
// A GET changes nothing. An act is a POST of a form, from the same origin
// ([net/http.CrossOriginProtection]). It has a reason, and is upon the version that its person
// saw. [Options].Actor names this person. Dangerous acts want a word typed. Pages never show a
// payload, and no error that may quote a data source name: such an error is in the log
// (docs/operations.md#the-console).
//
// A bulk action outlives the request that begins it. The process of the console carries it out,
// and the store keeps its progress ([operator.Bulks]), so that any replica shows the progress,
// cancels the action, or goes on with it after a crash.
package console

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

//go:embed page
var files embed.FS

// Bounds of one request.
const (
	pageTimeLimit = 10 * time.Second // to read a page
	actTimeLimit  = time.Minute      // to carry a form out
	pageRows      = 100              // of a list on one page
	maxForm       = 8 << 20          // bytes of a form; the largest one has a bulk selection
	maxField      = 256              // fields of a form or an address: each takes much more memory than its text
)

// Options of a console.
type Options struct {
	// Actor names the person who makes a request, for the history, by what the application's own
	// authentication knows of the request. It may be called concurrently. Nobody else names the
	// actor, least of all a form. Where it is nil, the console is read-only. After an error, or
	// with a name that [batch.By] does not take, this request may look and not act; the error is
	// logged and not shown.
	Actor func(*http.Request) (string, error)
	// Title is the product and the environment that each page names, such as "payments,
	// production": a person who has several consoles open sees which one this is. Defaults to
	// dltbatch.
	Title string
	// Describe returns facts of the application about a batch, such as {"invoice",
	// "4711"} and {"amount", "5 EUR"}: the console itself never shows a payload. Every visitor
	// sees the answer, also one who may not act. It gets a copy of the batch as added, without
	// Transactions, SignerPublicKey and Trace, and may be called concurrently. A page waits for it
	// for a second. A panic is contained, and logged without its value. The first 30 fields are
	// shown. Nothing is described by default.
	Describe func(batch.Batch) []Field
	// Logger gets the errors of the store and of Actor. Silent by default.
	Logger *slog.Logger
}

// New returns the console of a store. It does no I/O and starts nothing. [Console.Close] ends what
// its visitors have started. A store that lacks
// abilities ([store.Abilities]) has pages that say so. nil options mean a console that changes
// nothing. The error is a [*batch.InputError] where there is no store.
func New(s store.Store, o *Options) (*Console, error) {
	c, err := newConsole(o)
	if err != nil {
		return nil, err
	}
	if c.desk, err = operator.New(s); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.store, c.bulks = s, operator.NewBulks(c.desk)
	c.orders, _ = s.(order.Store)
	c.overview, c.present, c.lanes = newShared(c.readOverview), newShared(c.readClockAndPause), newShared(c.readLanes)
	return c, nil
}

// newConsole is a console without a store.
func newConsole(o *Options) (c *Console, err error) {
	if o == nil {
		o = &Options{}
	}
	c = &Console{title: o.Title, actor: o.Actor, log: o.Logger, cross: http.NewCrossOriginProtection()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.title == "" {
		c.title = "dltbatch"
	}
	c.log = slog.New(legible.Handler(c.log.Handler()))
	c.describe = newDescriber(o.Describe, c.log)
	if c.pages, err = template.New("").Funcs(templateFuncs()).ParseFS(files, "page/*.html"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.style, err = files.ReadFile("page/style.css"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.script, err = files.ReadFile("page/console.js"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.live.done = make(chan struct{})
	return c, nil
}

// Console is the handler of all pages. Its methods may be called concurrently.
type Console struct {
	shards      []*Console // of all shards; nil where this is the console of one store
	set         *Console   // of all shards; nil where the store is no shard
	name        string     // of the shard
	store       store.Store
	desk        *operator.Desk
	bulks       *operator.Bulks
	orders      order.Store // nil where the store keeps no orders
	title       string
	actor       func(*http.Request) (string, error)
	log         *slog.Logger
	cross       *http.CrossOriginProtection
	pages       *template.Template
	style       []byte
	overview    *sharedAnswer[overview]
	readMark    int64 // the acts before the last read; only the visitor who reads overview uses it
	present     *sharedAnswer[present]
	lanes       *sharedAnswer[allLanes]
	script      []byte
	bulkActions carriedBulks
	describe    *describer
	live        liveStreams
}

// Close ends the streams of pages that are kept up to date. It stops the bulk actions that this
// process carries out, each after the batch that it is at, and returns once they have stopped.
// They stay open in the store, and go on by a click in another process. No further bulk action
// begins here; the pages go on to answer. Call it when the server shuts down:
// [http.Server.RegisterOnShutdown] is the place, since [http.Server.Shutdown] waits for streams.
func (c *Console) Close() {
	c.live.end.Do(func() { close(c.live.done) })
	c.bulkActions.close()
	for _, one := range c.shards {
		one.Close()
	}
}

// headers go with every answer. A form is refused by browsers that send no Sec-Fetch-Site if its
// Origin is "null", as it is with the policy no-referrer: hence same-origin.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	if c.serveShard(w, r) {
		return
	}
	if strings.Count(r.URL.RawQuery, "&") >= maxField {
		write(w, http.StatusBadRequest, "text/plain; charset=utf-8", []byte("The address has too many fields.\n"))
		return
	}
	if r.Method == http.MethodGet && strings.TrimPrefix(r.URL.Path, "/") == "live" {
		c.serveLive(w, r)
		return
	}
	limit := pageTimeLimit
	if r.Method == http.MethodPost {
		limit = actTimeLimit
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	v := &visit{Console: c, r: r, q: r.URL.Query(), now: time.Now().UTC()}
	a, err := v.answer(ctx, w)
	if err != nil {
		a = v.errorPage(ctx, err)
	}
	switch {
	case a.to != "":
		w.Header().Set("Location", a.to)
		w.WriteHeader(http.StatusSeeOther)
	case a.style:
		write(w, http.StatusOK, "text/css; charset=utf-8", c.style)
	case a.json != nil:
		write(w, http.StatusOK, "application/json", a.json)
	case a.script:
		write(w, http.StatusOK, "text/javascript; charset=utf-8", c.script)
	default:
		v.show(ctx, w, a)
	}
}

// write writes an answer. A visitor who has gone does not get it.
func write(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// page answers a request.
type page func(ctx context.Context, v *visit) (*answer, error)

// pageAt returns the page at a path; nil without a page.
func pageAt(path string) page {
	switch strings.TrimPrefix(path, "/") {
	case "":
		return home
	case "lanes":
		return lanes
	case "lane":
		return lane
	case "batches":
		return batches
	case "batch":
		return oneBatch
	case "orders":
		return orders
	case "search":
		return search
	case "search.json":
		return suggest
	case "bulk":
		return bulk
	case "bulks":
		return bulks
	case "progress":
		return progress
	case "instances":
		return instances
	case "audit":
		return audit
	case "style.css":
		return func(context.Context, *visit) (*answer, error) { return &answer{style: true}, nil }
	case "console.js":
		return func(context.Context, *visit) (*answer, error) { return &answer{script: true}, nil }
	}
	return nil
}

// changeAt returns what carries a form out; nil where a path takes none.
func changeAt(path string) page {
	switch strings.TrimPrefix(path, "/") {
	case "act":
		return act
	case "bulk":
		return beginBulk
	case "progress":
		return changeBulk
	}
	return nil
}

// present is the moment of the database, and whether everything is paused.
type present struct {
	at         time.Time
	everything batch.Control
}

func (c *Console) readClockAndPause(ctx context.Context) (present, error) {
	if !c.store.Abilities().Has(store.CanSurvey) {
		return present{at: time.Now().UTC()}, nil
	}
	s, err := c.store.Survey(ctx, store.SurveyQuery{Services: []batch.ServiceID{}})
	return present{s.At, s.Everything}, err
}

// forgetReads makes the next visitor look at the store again, since something was done.
func (c *Console) forgetReads() {
	c.overview.forget()
	c.lanes.forget()
	if c.set != nil {
		c.set.overview.forget()
	}
}
