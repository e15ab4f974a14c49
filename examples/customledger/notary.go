package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Notary is the made-up ledger: it writes texts into books, one per lane.
//
//	POST /entries?lane=L&id=ID   202 accepted; 422 for a text that is empty or too long
//	GET  /entries?id=A&id=B      [{"id": "A", "state": "written"}, ...]; the states are
//	                             none, waiting, written, and void for a text that begins
//	                             with "void"
//
// An id is written once, however often it is sent.
type Notary struct {
	writeAfter time.Duration

	mu      sync.Mutex
	entries map[batch.ID]*entry
	books   map[batch.ServiceID][]*entry
}

type entry struct {
	text      string
	writtenAt time.Time // the time from which the entry is written, or void
}

func (e *entry) isVoid() bool { return strings.HasPrefix(e.text, "void") }

// NewNotary returns a notary with empty books.
func NewNotary(writeAfter time.Duration) *Notary {
	return &Notary{writeAfter: writeAfter, entries: map[batch.ID]*entry{}, books: map[batch.ServiceID][]*entry{}}
}

// ServeHTTP implements [http.Handler].
func (n *Notary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/entries":
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		text, err := io.ReadAll(io.LimitReader(r.Body, maxTextBytes+1))
		if err != nil || len(text) == 0 || len(text) > maxTextBytes {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		n.addEntry(batch.ServiceID(r.FormValue("lane")), batch.ID(r.FormValue("id")), string(text))
		w.WriteHeader(http.StatusAccepted)
	default:
		_ = json.NewEncoder(w).Encode(n.states(r.URL.Query()["id"])) // an error means that the client has gone
	}
}

const maxTextBytes = 1000

func (n *Notary) addEntry(lane batch.ServiceID, id batch.ID, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.entries[id] == nil {
		e := &entry{text: text, writtenAt: time.Now().Add(n.writeAfter)}
		n.entries[id] = e
		n.books[lane] = append(n.books[lane], e)
	}
}

type entryState struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

func (n *Notary) states(ids []string) []entryState {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]entryState, len(ids))
	for i, id := range ids {
		switch e := n.entries[batch.ID(id)]; {
		case e == nil:
			out[i] = entryState{ID: id, State: "none"}
		case time.Now().Before(e.writtenAt):
			out[i] = entryState{ID: id, State: "waiting"}
		case e.isVoid():
			out[i] = entryState{ID: id, State: "void", Reason: "the text says so"}
		default:
			out[i] = entryState{ID: id, State: "written"}
		}
	}
	return out
}

// Book returns the written texts of a lane, in order.
func (n *Notary) Book(lane batch.ServiceID) (texts []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.books[lane] {
		if !e.isVoid() {
			texts = append(texts, e.text)
		}
	}
	return texts
}

// Server serves a handler; it can be opened and shut, always at the same address.
type Server struct {
	handler http.Handler
	addr    string
	server  *http.Server
	served  chan error
}

// NewServer opens an office on a free port.
func NewServer(h http.Handler) (*Server, error) {
	o := &Server{handler: h, addr: "127.0.0.1:0"}
	return o, o.Open()
}

// URL returns the server's address.
func (o *Server) URL() string { return "http://" + o.addr }

// Open starts to listen, if the server is shut.
func (o *Server) Open() error {
	if o.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		return err
	}
	o.addr = l.Addr().String()
	o.server, o.served = &http.Server{Handler: o.handler, ReadHeaderTimeout: time.Minute}, make(chan error, 1)
	go func() { o.served <- o.server.Serve(l) }()
	return nil
}

// Shut cuts all connections and stops listening.
func (o *Server) Shut() error {
	if o.server == nil {
		return nil
	}
	err := o.server.Close()
	if served := <-o.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	o.server = nil
	return err
}
