package browser

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

const (
	operatorName = "ada"
	ticketReason = "ticket 17"
)

// stagedConsole is a database with batches that do not move, and a console for it.
type stagedConsole struct {
	*testing.T
	st   *sqlite.Store
	db   *sql.DB
	file string
	url  string // of the first page
	// isAway is true while the server does not answer for the first page.
	isAway atomic.Bool
}

func newStagedConsole(t *testing.T) *stagedConsole {
	t.Helper()
	s := &stagedConsole{T: t, file: filepath.Join(t.TempDir(), "queue.db")}
	var err error
	s.db, err = sqliteopen.Open(s.file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	s.st, err = sqlite.New(s.db, nil)
	require.NoError(t, err)
	require.NoError(t, s.st.Migrate(t.Context()))
	h, err := console.New(s.st, &console.Options{
		Title: "payments, production",
		Describe: func(b batch.Batch) []console.Field {
			return []console.Field{{Name: "Invoice", Value: b.Tags["invoice"]}, {Name: "Amount", Value: "5.00 EUR"}, {Name: "From", Value: "account 17"}}
		},
		Actor:  func(*http.Request) (string, error) { return operatorName, nil },
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	server := httptest.NewServer(http.StripPrefix("/queue", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isAway.Load() && r.URL.Path == "/" {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		h.ServeHTTP(w, r)
	})))
	t.Cleanup(h.Close)
	t.Cleanup(server.Close)
	s.url = server.URL + "/queue/"
	return s
}

// person uses the browser or the shell, as an operator who was called.
type person struct {
	*stagedConsole
	ctx      context.Context // chromedp takes its handle of a tab as a context
	clicks   int
	commands int
	calledAt time.Time
}

// pageTimeLimit is how long a page may take.
const pageTimeLimit = 30 * time.Second

func (s *stagedConsole) newPerson() *person {
	s.Helper()
	ctx, cancel := chromedp.NewContext(chrome.ctx, chromedp.WithNewBrowserContext())
	s.Cleanup(cancel)
	p := &person{stagedConsole: s, ctx: ctx}
	require.NoError(s, chromedp.Do(ctx, chromedp.EmulateViewport(1200, 900))) // opens the tab, which stays open as long as its context
	p.calledAt = time.Now()
	return p
}

// run carries out actions that do not lead to another page.
func (p *person) run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeLimit)
	defer cancel()
	require.NoError(p, chromedp.Do(ctx, actions...))
}

// runAndLoad carries out actions that lead to another page, and waits for that page.
func (p *person) runAndLoad(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeLimit)
	defer cancel()
	got, err := chromedp.RunResponse(ctx, actions...)
	require.NoError(p, err)
	require.Less(p, got.Status, int64(http.StatusBadRequest), "%s", got.URL)
}

// open opens a page by its address, as a bookmark does.
func (p *person) open(page string) {
	p.Helper()
	p.runAndLoad(chromedp.Navigate(p.url + page))
}

// text returns the visible text of the page.
func (p *person) text() string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeLimit)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text("body"))
	require.NoError(p, err)
	return text
}

// checkWords checks that the page has these words.
func (p *person) checkWords(words ...string) {
	p.Helper()
	text := strings.Join(strings.Fields(p.text()), " ")
	for _, w := range words {
		require.Contains(p, text, w)
	}
}

func elementWithWords(element, words string) string {
	return "//" + element + `[normalize-space()='` + words + `']`
}

// click follows the first link with these words.
func (p *person) click(words string) {
	p.Helper()
	p.clicks++
	p.runAndLoad(chromedp.Click(elementWithWords("a", words)))
}

// typeInto types into the field with this id.
func (p *person) typeInto(id, words string) {
	p.Helper()
	p.run(chromedp.SendKeys("#"+id, words))
}

// clickElement clicks an element that does not lead to another page.
func (p *person) clickElement(id string) {
	p.Helper()
	p.clicks++
	p.run(chromedp.Click("#" + id))
}

// pressButton clicks on the button with these words.
func (p *person) pressButton(words string) {
	p.Helper()
	p.clicks++
	p.runAndLoad(chromedp.Click(elementWithWords("form//button", words)))
}

// commandPath is the command, built once.
var commandPath = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(buildDir, "dltbatch")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/dltbatch")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return bin, nil
})

// command runs dltbatch with the given input, and returns its output. It accepts exit code 6, with
// which the command reports that it found something.
func (p *person) command(typed string, args ...string) string {
	p.Helper()
	bin, err := commandPath()
	require.NoError(p, err)
	p.commands++
	cmd := exec.CommandContext(p.Context(), bin, append(args, "--dsn", p.file)...)
	cmd.Stdin = strings.NewReader(typed + "\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 6 {
		require.NoError(p, err, "%v: %s", args, out.String())
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// checkLastAct checks that the last act is this action, by the expected person.
func (p *person) checkLastAct(acts []batch.Act, err error, action batch.Action) {
	p.Helper()
	require.NoError(p, err)
	require.NotEmpty(p, acts)
	last := acts[len(acts)-1]
	require.Equal(p, action, last.Action)
	require.Equal(p, ticketReason, last.Reason)
}
