package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/legible"
)

// visit is one request, with what its answer needs.
type visit struct {
	*Console
	request      *http.Request
	query        url.Values // parameters of the address
	form         url.Values // fields of the body of a POST, without those of the address
	person       string     // name of the person who acts
	deniedReason string     // why this visitor cannot act; "" if he can
	now          time.Time  // on the database's clock
	everything   batch.Control
	readNumber   int64 // the number of the newest read before this page's own read
}

// answer is the result of a visit: a page, or a redirect to another address.
type answer struct {
	status      int    // HTTP status; 0 means 200
	redirectTo  string // relative address of a redirect
	isStyle     bool
	isScript    bool
	json        []byte
	page        string // name of a template
	title       string
	body        any
	reloadAfter time.Duration // time after which the browser asks again; 0 means never
	live        *liveLink     // nil if the page cannot be kept up to date
}

// answer returns the answer of the request, or an error for [visit.errorPage].
func (v *visit) answer(ctx context.Context, w http.ResponseWriter) (*answer, error) {
	v.findActor(ctx)
	looks, changes := v.route(v.request.URL.Path), changeAt(v.request.URL.Path)
	if v.shards != nil {
		changes = nil // the pages about all shards take no forms; those of a shard do
	}
	var do page
	switch v.request.Method {
	case http.MethodGet, http.MethodHead:
		do = looks
	case http.MethodPost:
		if err := v.checkForm(w); err != nil {
			return nil, err
		}
		do = changes
	}
	if do == nil && (looks != nil || changes != nil) {
		w.Header().Set("Allow", allowedMethods(looks != nil, changes != nil))
		return nil, &refusal{http.StatusMethodNotAllowed, "This is not how to ask for it", "The address takes other methods: " + w.Header().Get("Allow") + "."}
	}
	for _, values := range [...]url.Values{v.query, v.form} {
		if err := checkStorable(values); err != nil {
			return nil, err
		}
	}
	if do == nil {
		return nil, &refusal{http.StatusNotFound, "No such page", "The console has no page of this name."}
	}
	if v.request.Method != http.MethodPost && (strings.HasSuffix(v.request.URL.Path, ".css") || strings.HasSuffix(v.request.URL.Path, ".js")) {
		return do(ctx, v)
	}
	read := v.clockAndPause.get
	if v.query.Get("keep") != "" {
		read = v.clockAndPause.getMaybeOld
	}
	at, age, err := read(ctx)
	if err != nil {
		return nil, err
	}
	v.now, v.everything, v.readNumber = at.now.Add(age), at.everything, v.overview.readCount.Load()
	return do(ctx, v)
}

// checkStorable returns an error for a name that no store accepts, before a store is asked:
// databases refuse some names with errors of their own, which would look like failures.
func checkStorable(values url.Values) error {
	for field, all := range values {
		for _, text := range all {
			var err error
			switch field {
			case "service", "lane":
				err = batch.Only(batch.ServiceID(text)).Validate()
			case "id", "batch", "token", "ledger", "after", "q", "name":
				if text != "" {
					err = batch.Key{ID: batch.ID(text)}.Validate()
				}
			}
			if in, is := errors.AsType[*batch.InputError](err); is {
				return &batch.InputError{Field: field, Value: in.Value, Want: in.Want}
			}
		}
	}
	return nil
}

func allowedMethods(looks, changes bool) string {
	var methods []string
	if looks {
		methods = append(methods, http.MethodGet, http.MethodHead)
	}
	if changes {
		methods = append(methods, http.MethodPost)
	}
	return strings.Join(methods, ", ")
}

// findActor sets the name of the person who acts. It uses nothing that the browser chose.
func (v *visit) findActor(ctx context.Context) {
	if v.actor == nil {
		v.deniedReason = "This console is read-only."
		return
	}
	name, err := v.actor(v.request)
	if err == nil {
		err = batch.By{Actor: name}.Validate()
	}
	if err != nil {
		level := slog.LevelDebug // reading needs no name
		if v.request.Method == http.MethodPost {
			level = slog.LevelWarn
		}
		v.log.LogAttrs(ctx, level, "console: no actor", slog.Any("error", err))
		v.deniedReason = "The application does not say who you are, so you can look and not act."
		return
	}
	v.person = name
}

// checkForm refuses a form from another origin or of a visitor without a name; otherwise it parses
// the form.
func (v *visit) checkForm(w http.ResponseWriter) error {
	if err := v.crossOrigin.Check(v.request); err != nil {
		return &refusal{http.StatusForbidden, "Not from here", "The form was not sent by a page of this console, so nothing was done."}
	}
	if v.deniedReason != "" {
		return &refusal{http.StatusForbidden, "Nothing was done", v.deniedReason}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, v.request.Body, maxFormSize))
	if err == nil && bytes.Count(text, []byte("&")) >= maxFieldSize {
		err = errTooManyFields
	}
	v.request.Body = io.NopCloser(bytes.NewReader(text))
	if err == nil {
		err = v.request.ParseForm()
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, "Nothing was done", "The form could not be read, or is too long."}
	}
	v.form = v.request.PostForm
	return nil
}

// errTooManyFields says that a form has too many fields.
var errTooManyFields = errors.New("too many fields")

// pageData is the data for the template of a page.
type pageData struct {
	Title, Page, Product string
	Up                   string // the address of the pages about all shards; "" if this is one of them, or if there are no shards
	By, Denied           string
	Now                  time.Time
	Everything           batch.Control
	Band                 *topLine  // nil if the state is not known
	Live                 *liveLink // nil if the page cannot be kept up to date
	Body                 any
}

// liveLink is a link to the same page that turns keeping it up to date on or off. If Script is
// set, only the script shows the link. The page shows the read with the number in this link, or a
// later one; it is read again once there is a higher number.
type liveLink struct {
	On     bool
	To     string
	Script bool
	Look   int64
}

// writePage writes a page.
func (v *visit) writePage(ctx context.Context, w http.ResponseWriter, a *answer) {
	v.keepUpToDate(a)
	if a.reloadAfter > 0 {
		w.Header().Set("Refresh", strconv.Itoa(int(a.reloadAfter.Seconds())))
	}
	var b bytes.Buffer
	up, product := "", v.title
	if v.parent != nil {
		up, product = "../", v.title+", "+v.name
	}
	f := pageData{Title: a.title, Page: a.page, Product: product, Up: up, Band: v.readTopLine(ctx, a), Live: a.live, By: v.person, Denied: v.deniedReason, Now: v.now, Everything: v.everything, Body: a.body}
	if err := v.pages.ExecuteTemplate(&b, a.page, f); err != nil {
		v.log.ErrorContext(ctx, "console: a page could not be made", slog.String("page", a.page), slog.Any("error", err))
		writeAnswer(w, http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("The page could not be made. The log of this process says why.\n"))
		return
	}
	writeAnswer(w, max(a.status, http.StatusOK), "text/html; charset=utf-8", legible.HTML(b.Bytes()))
}
