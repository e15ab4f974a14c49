package dltbatch_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answerChange is a change that a proxy between the client and the node makes to an answer.
type answerChange string

const (
	unchangedAnswer   answerChange = "honest"
	answers401        answerChange = "401"
	answers403        answerChange = "403"
	answers500        answerChange = "500"
	answers400        answerChange = "400"
	truncatedAnswer   answerChange = "truncated"
	redirectAnswer    answerChange = "redirect"
	redirectToNowhere answerChange = "redirect to nowhere"
	resetConnection   answerChange = "reset"
	noJSONAnswer      answerChange = "no JSON"
	anotherWordAnswer answerChange = "another word"
)

// leakingProxy is a proxy before a node. It reveals secrets: each answer that it makes itself
// repeats the Authorization header and the path of the request. The path of its own address
// contains a key.
type leakingProxy struct {
	node        http.Handler
	address     string
	server      *http.Server
	serverEnded chan struct{}

	mu          sync.Mutex
	changesLeft map[string][]answerChange // changes that remain, by kind of request
	changesMade map[string]int
}

func newLeakingProxy(t *testing.T, node http.Handler) *leakingProxy {
	g := &leakingProxy{node: http.StripPrefix("/"+secretPath, node), address: "127.0.0.1:0", changesMade: map[string]int{}, changesLeft: map[string][]answerChange{
		"submit":   {unchangedAnswer, answers400, answers401, unchangedAnswer, answers500, unchangedAnswer, truncatedAnswer, redirectAnswer, unchangedAnswer, redirectToNowhere, unchangedAnswer, resetConnection, answers403},
		"statuses": {answers401, unchangedAnswer, answers500, truncatedAnswer, redirectAnswer, redirectToNowhere, resetConnection, noJSONAnswer, anotherWordAnswer, answers403},
		"events":   {answers401, answers500, redirectAnswer, redirectToNowhere, resetConnection, noJSONAnswer},
		"receipts": {unchangedAnswer, answers401, answers500, noJSONAnswer, truncatedAnswer},
	}}
	g.start(t)
	t.Cleanup(g.stop)
	return g
}

func (g *leakingProxy) start(t *testing.T) {
	l, err := net.Listen("tcp", g.address)
	require.NoError(t, err)
	g.address = l.Addr().String()
	server, ended := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	g.server, g.serverEnded = server, ended
	go func() {
		defer close(ended)
		_ = server.Serve(l) // returns when g.http is closed
	}()
}

func (g *leakingProxy) stop() {
	_ = g.server.Close() // closes the open connections, too
	<-g.serverEnded
}

// allChangesMade reports whether every change for both ledgers was made.
func (g *leakingProxy) allChangesMade() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.changesLeft["submit"])+len(g.changesLeft["statuses"])+len(g.changesLeft["events"]) == 0
}

func (g *leakingProxy) nextChange(r *http.Request) answerChange {
	what := "submit"
	switch {
	case strings.HasSuffix(r.URL.Path, "/batch_statuses"):
		what = "statuses"
	case strings.HasPrefix(r.Header.Get("Upgrade"), "websocket"):
		what = "events"
	case !strings.HasSuffix(r.URL.Path, "/batches"):
		what = "receipts" // Sawtooth's receipts, and the transactions of a block
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	plan := g.changesLeft[what]
	if len(plan) == 0 {
		return unchangedAnswer
	}
	g.changesLeft[what] = plan[1:]
	g.changesMade[what+" "+string(plan[0])]++
	return plan[0]
}

func (g *leakingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told := r.Header.Get("Authorization") + " at " + r.RequestURI
	echo := func(status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{ // this object has the error fields of both ledgers
			"code": strconv.Itoa(status), "message": "I was told " + told,
			"error": map[string]any{"code": 30, "title": told, "message": "I was told " + told},
		})
	}
	switch what := g.nextChange(r); what {
	case answers401:
		echo(http.StatusUnauthorized)
	case answers403:
		echo(http.StatusForbidden)
	case answers500:
		echo(http.StatusInternalServerError)
	case answers400:
		echo(http.StatusBadRequest)
	case redirectAnswer:
		w.Header().Set("Location", "http://"+g.address+"/elsewhere?token="+told)
		echo(http.StatusTemporaryRedirect)
	case redirectToNowhere:
		w.Header().Set("Location", "http://%zz/"+told)
		echo(http.StatusTemporaryRedirect)
	case resetConnection:
		panic(http.ErrAbortHandler)
	case noJSONAnswer:
		_, _ = w.Write([]byte(told + " is no JSON"))
	case anotherWordAnswer, truncatedAnswer:
		answer := httptest.NewRecorder()
		g.node.ServeHTTP(answer, r)
		if what == anotherWordAnswer {
			leakInStatus(w, answer, told)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		panic(http.ErrAbortHandler)
	default:
		g.node.ServeHTTP(w, r)
	}
}

// leakInStatus replaces the word of a status in an answer by the secret.
func leakInStatus(w http.ResponseWriter, answer *httptest.ResponseRecorder, told string) {
	text := answer.Body.String()
	for _, word := range []string{"Unknown", "Pending", "Valid", "Invalid", "Committed"} {
		text = strings.ReplaceAll(text, `"`+word+`"`, strconv.Quote(told))
		text = strings.ReplaceAll(text, `"`+strings.ToUpper(word)+`"`, strconv.Quote(told))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(text))
}
