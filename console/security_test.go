package console_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func TestNewWantsAStore(t *testing.T) {
	_, err := console.New(nil, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
}

// storedText returns everything in the store that an act could change, as text.
func (p *person) storedText() string {
	p.Helper()
	recs, _, err := p.st.List(p.ctx(), store.ListQuery{Limit: 1000})
	require.NoError(p, err)
	controls, err := p.st.ControlsOf(p.ctx(), store.ControlsQuery{Start: true})
	require.NoError(p, err)
	kept, _, err := p.st.ListTexts(p.ctx(), store.TextsQuery{Kind: store.TextBulk, Limit: 1000})
	require.NoError(p, err)
	all := fmt.Sprintf("%+v %+v %+v", recs, controls, kept)
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s")} {
		acts, err := p.st.LaneHistory(p.ctx(), scope)
		require.NoError(p, err)
		all += fmt.Sprintf(" %+v", acts)
	}
	return all
}

// filledForms returns complete forms: a POST of each one does something.
func (p *person) filledForms() map[string]url.Values {
	p.Helper()
	_, cancel := p.form(p.get("batch?service=s&id=b1"), "Cancel", reasonFields("confirm", "cancel"))
	_, pause := p.form(p.get("lane?service=s"), "Pause", reasonFields())
	_, everything := p.form(p.get("lane?all=1"), "Pause", reasonFields("confirm", "pause"))
	_, bulk := p.form(p.get("bulk?action=cancel&service=s"), "Carry it out: cancel", reasonFields("confirm", "3"))
	begun := func() shownPage {
		b, err := operator.NewBulks(p.desk()).Begin(p.ctx(), p.preview("s"), ada)
		require.NoError(p, err)
		return p.get("progress?token=" + b.Token)
	}
	_, goOn := p.form(begun(), "Go on", reasonFields("confirm", "3"))
	_, giveUp := p.form(begun(), "Cancel it", reasonFields())
	return map[string]url.Values{"act?a": cancel, "act?b": pause, "act?c": everything, "bulk?d": bulk, "progress?e": giveUp, "progress?f": goOn}
}

// No GET and no HEAD changes anything, whatever its path and form.
func TestLooksChangeNothing(t *testing.T) {
	p := newPerson(t)
	p.add("s", "b1", "b2", "b3")
	forms := p.filledForms()
	before := p.storedText()
	for page, form := range forms {
		path, _, _ := strings.Cut(page, "?")
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			got := p.request(method, p.url+path+"?"+form.Encode(), nil)
			if path == "act" || method != http.MethodGet && method != http.MethodHead {
				assert.Equal(t, http.StatusMethodNotAllowed, got.status, "%s %s", method, path)
				assert.Contains(t, got.header.Get("Allow"), http.MethodPost)
			}
			assert.Equal(t, before, p.storedText(), "%s %s", method, path)
			p.request(method, p.url+path, form) // the form in the body of a request that is not a POST
			assert.Equal(t, before, p.storedText(), "%s %s", method, path)
		}
		assert.Equal(t, http.StatusBadRequest, p.request(http.MethodPost, p.url+path+"?"+form.Encode(), url.Values{}).status, "a form in the address")
		assert.Equal(t, before, p.storedText())
	}
}

// A form that comes from another site, directly or through a browser, is refused.
func TestFormsFromElsewhere(t *testing.T) {
	p := newPerson(t)
	p.add("s", "b1", "b2", "b3")
	forms := p.filledForms()
	before := p.storedText()
	for page, form := range forms {
		path, _, _ := strings.Cut(page, "?")
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
			{"Sec-Fetch-Site", "", "Origin", "null"}, {"Sec-Fetch-Site", "cross-site", "Origin", p.url},
		} {
			got := p.request(http.MethodPost, p.url+path, form, header...)
			assert.Equal(t, http.StatusForbidden, got.status, "%v", header)
			assert.Contains(t, got.text(), "was not sent by a page of this console")
			assert.Equal(t, before, p.storedText(), "%s %v", page, header)
		}
	}
}

// Without a function that names the actor nothing can be done, and every form is disabled.
func TestReadOnly(t *testing.T) {
	writer := newPerson(t)
	writer.add("s", "b1", "b2", "b3")
	forms := writer.filledForms()
	before := writer.storedText()
	for name, c := range map[string]struct {
		actor    func(*http.Request) (string, error)
		wantText string
	}{
		"no actor":          {nil, "This console is read-only."},
		"a request of none": {func(*http.Request) (string, error) { return "", errors.New("token=" + secret) }, "does not say who you are"},
		"an empty name":     {func(*http.Request) (string, error) { return "", nil }, "does not say who you are"},
		"no name":           {func(*http.Request) (string, error) { return "a\nb", nil }, "does not say who you are"},
		"a name too long":   {func(*http.Request) (string, error) { return strings.Repeat("a", batch.MaxActorLen+1), nil }, "does not say who you are"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPersonFor(t, writer.st, writer.st, c.actor)
			for page, form := range forms {
				path, _, _ := strings.Cut(page, "?")
				got := p.request(http.MethodPost, p.url+path, form)
				assert.Equal(t, http.StatusForbidden, got.status)
				assert.Contains(t, got.text(), c.wantText)
			}
			for _, path := range []string{"", "lanes", "batch", "nowhere"} {
				assert.Equal(t, http.StatusForbidden, p.request(http.MethodPost, p.url+path, url.Values{}).status)
			}
			assert.Equal(t, before, p.storedText())
			for _, page := range []string{"batch?service=s&id=b1", "lane?service=s", "lane?all=1", "bulk?action=cancel", "progress?token=" + forms["progress?f"].Get("token")} {
				s := p.get(page)
				assert.Contains(t, s.text(), c.wantText)
				for _, f := range s.descendants("form") {
					assert.NotEqual(t, "post", f.attrs["method"], page)
				}
			}
		})
	}
}

// The history has the name that the application gave, and never a name from the browser.
func TestNobodyActsAsAnother(t *testing.T) {
	p := newPerson(t)
	p.add("s", "b1", "b2", "b3")
	forms := p.filledForms()
	for _, page := range slices.Sorted(maps.Keys(forms)) { // sorted: acts upon one batch come before bulk actions
		form := forms[page]
		path, _, _ := strings.Cut(page, "?")
		for _, field := range []string{"actor", "Actor", "by", "By", "user"} {
			form.Set(field, "mallory")
		}
		got := p.request(http.MethodPost, p.url+path+"?actor=mallory&by=mallory", form, "X-Forwarded-User", "mallory", "Cookie", "actor=mallory")
		assert.Equal(t, http.StatusOK, got.status, "%s: %s", page, got.text())
	}
	acts, err := p.st.History(p.ctx(), batch.Key{Service: "s", ID: "b2"})
	p.checkLastAct(acts, err, batch.ActionCancel)
	assert.NotContains(t, p.storedText(), "mallory")
	assert.Contains(t, p.storedText(), "ada")
}

// The console also works at the root of a server, and a request cannot add headers to its answers.
func TestAtTheRoot(t *testing.T) {
	st := memory.New()
	h, err := console.New(st, nil)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	p := &person{T: t, st: st, client: server.Client(), url: server.URL + "/"}
	p.add("s", "b1")
	p.followLink(p.get("batches"), "b1")
	css := p.get("style.css")
	assert.Equal(t, "text/css; charset=utf-8", css.header.Get("Content-Type"))
	assert.NotContains(t, css.html, "url(")
	for _, page := range []string{"search?q=%0d%0aSet-Cookie:+x=1", "batch?id=%0d%0aX:+y", "lane?service=a%0d%0aX:y", "%0d%0aX:y", "batches?state=%0d%0aX:y"} {
		got := p.request(http.MethodGet, p.url+page, nil)
		assert.Empty(t, got.header.Get("X"), page)
	}
}

// A hostile name adds nothing to the address of the page after an act or a search, and adds no
// header. A name that would end a header is refused.
func TestNamesInAddresses(t *testing.T) {
	p := newPerson(t)
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	at := must(url.Parse(p.url))
	for _, name := range []string{"a?x=1&y=2#z", "//evil.example/", "https://evil.example", `\\evil.example`, "javascript:alert(1)", "%0d%0aX: y", "ä ö", hostileText, longText} {
		id := batch.ID("id " + name)
		p.add(batch.ServiceID(name), id)
		for what, got := range map[string]shownPage{
			"act":    p.request(http.MethodPost, p.url+"act", url.Values{"do": {"pause"}, "service": {name}, "version": {"0"}, "reason": {ticketReason}}),
			"search": p.request(http.MethodGet, p.url+"search?q="+url.QueryEscape(string(id)), nil),
		} {
			require.Equal(t, http.StatusSeeOther, got.status, "%s %s: %s", what, name, got.html)
			to := at.ResolveReference(must(url.Parse(got.header.Get("Location"))))
			assert.Equal(t, at.Host, to.Host, "%s %s", what, name)
			assert.Contains(t, []string{mountPath + "/lane", mountPath + "/batch"}, to.Path)
			assert.Equal(t, name, to.Query().Get("service"), what)
			assert.Contains(t, []string{"", "done"}, to.Fragment)
			assert.Empty(t, got.header.Values("X"))
		}
	}
	for _, name := range []string{"a\r\nX: y", "a\nSet-Cookie: x=1", "a\x00"} {
		got := p.request(http.MethodPost, p.url+"act", url.Values{"do": {"pause"}, "service": {name}, "version": {"0"}, "reason": {ticketReason}})
		assert.Equal(t, http.StatusBadRequest, got.status)
		assert.Empty(t, got.header.Values("Location"))
	}
}
