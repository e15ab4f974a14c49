// Package console shows package operator in a browser: the batches that do not move, the reason
// and the remedy, and the acts that a person may do. It is one [net/http.Handler], which needs a
// store and no ledger client. The command "dltbatch console" serves it.
//
// The pages are HTML, and the handler serves every file itself. The only script is small: it
// switches the theme, copies ids, suggests results for a search, and keeps the first page up to
// date; every page also works without it. Nothing is loaded from another site, no cookie is set,
// and no session is kept, so any number of replicas may answer. Mount the console where only
// operators have access, at a pattern that ends in a slash, behind the application's own
// authentication: the console asks for no password. All links are relative, so that it works below
// any prefix.
//
// A GET changes nothing. An act is a POST of a form, from the same origin
// ([net/http.CrossOriginProtection]). It has a reason, and applies to the version that the person
// saw. [Options].Actor names this person. For dangerous acts the person has to type a word. Pages
// never show a payload, and no error that may quote a data source name: such an error goes to the
// log (docs/operations.md#the-console).
//
// A bulk action outlives the request that begins it. The process of the console carries it out,
// and the store keeps its progress ([operator.Bulks]), so that any replica shows the progress,
// cancels the action, or continues it after a crash.
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
var pageFiles embed.FS

// Limits of one request.
const (
	pageTimeLimit = 10 * time.Second // for reading a page
	actTimeLimit  = time.Minute      // for carrying out a form
	pageRows      = 100              // rows of a list on one page
	maxFormSize   = 8 << 20          // bytes of a form; the largest form holds a bulk selection
	maxFieldSize  = 256              // fields of a form or an address, since each field takes much more memory than its text
)

// Options of a console.
type Options struct {
	// Actor returns the name of the person who makes a request, for the history, from what the
	// application's own authentication knows about the request. It may be called concurrently.
	// Nothing else names the actor; a form cannot. If Actor is nil, the console is read-only. If
	// Actor returns an error, or a name that [batch.By] does not accept, this request may read and
	// not act; the error is logged and not shown.
	Actor func(*http.Request) (string, error)
	// Title is the product and the environment that each page names, such as "payments,
	// production", so that a person with several consoles open can tell them apart. The default is
	// "dltbatch".
	Title string
	// Describe returns facts of the application about a batch, such as {"invoice", "4711"} and
	// {"amount", "5 EUR"}, since the console itself never shows a payload. Every visitor sees
	// these facts, including visitors who may not act. Describe gets a copy of the batch as added,
	// without Transactions, SignerPublicKey and Trace, and may be called concurrently. A page
	// waits for it for at most a second. A panic is contained, and logged without its value. The
	// first 30 fields are shown. If Describe is nil, nothing is described.
	Describe func(batch.Batch) []Field
	// Logger gets the errors of the store and of Actor. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// New returns the console of a store. It does no I/O and starts nothing. [Console.Close] ends what
// visitors have started. For a store that lacks abilities ([store.Abilities]), the pages say so.
// With nil options the console changes nothing. The error is a [*batch.InputError] if the store is
// nil.
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
	c.overview, c.clockAndPause, c.lanes = newShared(c.readOverview), newShared(c.readClockAndPause), newShared(c.readLanes)
	return c, nil
}

// newConsole returns a console without a store.
func newConsole(o *Options) (c *Console, err error) {
	if o == nil {
		o = &Options{}
	}
	c = &Console{title: o.Title, actor: o.Actor, log: o.Logger, crossOrigin: http.NewCrossOriginProtection()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.title == "" {
		c.title = "dltbatch"
	}
	c.log = slog.New(legible.Handler(c.log.Handler()))
	c.describer = newDescriber(o.Describe, c.log)
	if c.pages, err = template.New("").Funcs(templateFuncs()).ParseFS(pageFiles, "page/*.html"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.style, err = pageFiles.ReadFile("page/style.css"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.script, err = pageFiles.ReadFile("page/console.js"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.liveStreams.done = make(chan struct{})
	return c, nil
}

// Console is the handler of all pages. Its methods may be called concurrently.
type Console struct {
	shards        []*Console // the consoles of the single shards; nil if this console has one store
	parent        *Console   // the console of all shards; nil if the store is no shard
	name          string     // name of the shard
	store         store.Store
	desk          *operator.Desk
	bulks         *operator.Bulks
	orders        order.Store // nil if the store keeps no orders
	title         string
	actor         func(*http.Request) (string, error)
	log           *slog.Logger
	crossOrigin   *http.CrossOriginProtection
	pages         *template.Template
	style         []byte
	overview      *sharedAnswer[overview]
	readMark      int64 // the number of acts before the last read; only the visitor who reads the overview uses it
	clockAndPause *sharedAnswer[clockAndPause]
	lanes         *sharedAnswer[allLanes]
	script        []byte
	bulkActions   carriedBulks
	describer     *describer
	liveStreams   liveStreams
}

// Close ends the streams of pages that are kept up to date. It stops the bulk actions that this
// process carries out, each after its present batch, and returns once they have stopped. These
// actions stay open in the store, and a person can continue them in another process. No further
// bulk action begins here; the pages still answer. Call Close when the server shuts down, by
// [http.Server.RegisterOnShutdown], because [http.Server.Shutdown] waits for streams.
func (c *Console) Close() {
	c.liveStreams.endOnce.Do(func() { close(c.liveStreams.done) })
	c.bulkActions.close()
	for _, one := range c.shards {
		one.Close()
	}
}

// responseHeaders are sent with every answer. The referrer policy is same-origin because with
// no-referrer browsers send "null" as the Origin of a form, and a form with that Origin and
// without Sec-Fetch-Site is refused.
var responseHeaders = map[string]string{
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
	for name, value := range responseHeaders {
		w.Header().Set(name, value)
	}
	if c.serveShard(w, r) {
		return
	}
	if strings.Count(r.URL.RawQuery, "&") >= maxFieldSize {
		writeAnswer(w, http.StatusBadRequest, "text/plain; charset=utf-8", []byte("The address has too many fields.\n"))
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
	v := &visit{Console: c, request: r, query: r.URL.Query(), now: time.Now().UTC()}
	a, err := v.answer(ctx, w)
	if err != nil {
		a = v.errorPage(ctx, err)
	}
	switch {
	case a.redirectTo != "":
		w.Header().Set("Location", a.redirectTo)
		w.WriteHeader(http.StatusSeeOther)
	case a.isStyle:
		writeAnswer(w, http.StatusOK, "text/css; charset=utf-8", c.style)
	case a.json != nil:
		writeAnswer(w, http.StatusOK, "application/json", a.json)
	case a.isScript:
		writeAnswer(w, http.StatusOK, "text/javascript; charset=utf-8", c.script)
	default:
		v.writePage(ctx, w, a)
	}
}

// writeAnswer writes an answer. Errors are ignored, because the visitor has then gone.
func writeAnswer(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// page is the function that answers requests for a page.
type page func(ctx context.Context, v *visit) (*answer, error)

// pageAt returns the page at a path; nil if there is none.
func pageAt(path string) page {
	switch strings.TrimPrefix(path, "/") {
	case "":
		return homePage
	case "lanes":
		return lanesPage
	case "lane":
		return lanePage
	case "batches":
		return batchesPage
	case "batch":
		return batchPage
	case "orders":
		return ordersPage
	case "search":
		return searchPage
	case "search.json":
		return suggestionsAnswer
	case "bulk":
		return bulkPage
	case "bulks":
		return bulksPage
	case "progress":
		return progressPage
	case "instances":
		return instancesPage
	case "audit":
		return auditPage
	case "style.css":
		return func(context.Context, *visit) (*answer, error) { return &answer{isStyle: true}, nil }
	case "console.js":
		return func(context.Context, *visit) (*answer, error) { return &answer{isScript: true}, nil }
	}
	return nil
}

// changeAt returns the function that carries out forms of a path; nil if the path takes no forms.
func changeAt(path string) page {
	switch strings.TrimPrefix(path, "/") {
	case "act":
		return carryOutAct
	case "bulk":
		return beginBulk
	case "progress":
		return changeBulk
	}
	return nil
}

// clockAndPause holds the time of the database, and whether everything is paused.
type clockAndPause struct {
	now        time.Time
	everything batch.Control
}

func (c *Console) readClockAndPause(ctx context.Context) (clockAndPause, error) {
	if !c.store.Abilities().Has(store.CanSurvey) {
		return clockAndPause{now: time.Now().UTC()}, nil
	}
	s, err := c.store.Survey(ctx, store.SurveyQuery{Services: []batch.ServiceID{}})
	return clockAndPause{s.At, s.Everything}, err
}

// forgetReads makes the next visitor read the store again, because an act was done.
func (c *Console) forgetReads() {
	c.overview.forget()
	c.lanes.forget()
	if c.parent != nil {
		c.parent.overview.forget()
	}
}
