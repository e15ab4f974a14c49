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

// trick is a change that a proxy between the client and the node makes to an answer.
type trick string

const (
	honest     trick = "honest"
	refuses    trick = "401"
	forbids    trick = "403"
	breaks     trick = "500"
	rejects    trick = "400"
	truncates  trick = "truncated"
	redirects  trick = "redirect"
	misdirects trick = "redirect to nowhere"
	resets     trick = "reset"
	babbles    trick = "no JSON"
	misspeaks  trick = "another word"
)

// gossip is a proxy before a node. It reveals secrets: each answer that it makes itself repeats
// the Authorization header and the path of the request. The path of its own address contains a
// key.
type gossip struct {
	node  http.Handler
	addr  string
	http  *http.Server
	ended chan struct{}

	mu    sync.Mutex
	plans map[string][]trick // tricks that remain, by kind of request
	did   map[string]int
}

func newGossip(t *testing.T, node http.Handler) *gossip {
	g := &gossip{node: http.StripPrefix("/"+secretPath, node), addr: "127.0.0.1:0", did: map[string]int{}, plans: map[string][]trick{
		"submit":   {honest, rejects, refuses, honest, breaks, honest, truncates, redirects, honest, misdirects, honest, resets, forbids},
		"statuses": {refuses, honest, breaks, truncates, redirects, misdirects, resets, babbles, misspeaks, forbids},
		"events":   {refuses, breaks, redirects, misdirects, resets, babbles},
		"receipts": {honest, refuses, breaks, babbles, truncates},
	}}
	g.up(t)
	t.Cleanup(g.down)
	return g
}

func (g *gossip) up(t *testing.T) {
	l, err := net.Listen("tcp", g.addr)
	require.NoError(t, err)
	g.addr = l.Addr().String()
	server, ended := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	g.http, g.ended = server, ended
	go func() {
		defer close(ended)
		_ = server.Serve(l) // returns when g.http is closed
	}()
}

func (g *gossip) down() {
	_ = g.http.Close() // closes the open connections, too
	<-g.ended
}

// done reports whether every trick that both ledgers have was played.
func (g *gossip) done() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.plans["submit"])+len(g.plans["statuses"])+len(g.plans["events"]) == 0
}

func (g *gossip) next(r *http.Request) trick {
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
	plan := g.plans[what]
	if len(plan) == 0 {
		return honest
	}
	g.plans[what] = plan[1:]
	g.did[what+" "+string(plan[0])]++
	return plan[0]
}

func (g *gossip) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told := r.Header.Get("Authorization") + " at " + r.RequestURI
	echo := func(status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{ // this object has the error fields of both ledgers
			"code": strconv.Itoa(status), "message": "I was told " + told,
			"error": map[string]any{"code": 30, "title": told, "message": "I was told " + told},
		})
	}
	switch what := g.next(r); what {
	case refuses:
		echo(http.StatusUnauthorized)
	case forbids:
		echo(http.StatusForbidden)
	case breaks:
		echo(http.StatusInternalServerError)
	case rejects:
		echo(http.StatusBadRequest)
	case redirects:
		w.Header().Set("Location", "http://"+g.addr+"/elsewhere?token="+told)
		echo(http.StatusTemporaryRedirect)
	case misdirects:
		w.Header().Set("Location", "http://%zz/"+told)
		echo(http.StatusTemporaryRedirect)
	case resets:
		panic(http.ErrAbortHandler)
	case babbles:
		_, _ = w.Write([]byte(told + " is no JSON"))
	case misspeaks, truncates:
		answer := httptest.NewRecorder()
		g.node.ServeHTTP(answer, r)
		if what == misspeaks {
			bend(w, answer, told)
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

// bend replaces the word of a status in an answer by the secret.
func bend(w http.ResponseWriter, answer *httptest.ResponseRecorder, told string) {
	text := answer.Body.String()
	for _, word := range []string{"Unknown", "Pending", "Valid", "Invalid", "Committed"} {
		text = strings.ReplaceAll(text, `"`+word+`"`, strconv.Quote(told))
		text = strings.ReplaceAll(text, `"`+strings.ToUpper(word)+`"`, strconv.Quote(told))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(text))
}
