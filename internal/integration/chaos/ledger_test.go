package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// The kinds of ledgers.
const (
	sawtoothNode      = "sawtooth"
	unforgivingLedger = "unforgiving" // executes a batch each time it is sent
	evmNode           = "anvil"       // with intents
	evmSigned         = "signed"      // anvil, with signed transactions
	gethNode          = "geth"        // with intents
)

// lateArrival is the LateArrival of the unforgiving ledger. A machine that does ten things at once
// may pass a request on late.
const lateArrival = 800 * time.Millisecond

// report is everything that the ledger has recorded.
type report struct {
	Executed []execution // committed batches, in order
	Invalid  []batch.ID  // batches that ended Invalid
	Late     []latePost
	Posted   []acceptedPost // requests that the unforgiving ledger may have accepted, in order
	Posts    int
	Restarts int
	Foreign  int         // number of executed transactions that the test did not add
	Used     []usedNonce // nonces that these transactions used
	Breach   string      // a broken promise that the ledger itself found
}

type execution struct {
	Service batch.ServiceID // for the unforgiving ledger only
	ID      batch.ID
}

type acceptedPost struct {
	ID     batch.ID
	Worker string
	At     time.Time
}

// usedNonce is a nonce that a transaction of another sender has used.
type usedNonce struct {
	Service batch.ServiceID
	Nonce   uint64
}

// onChain reports whether a ledger is an EVM node.
func onChain(ledger string) bool {
	return ledger == evmNode || ledger == evmSigned || ledger == gethNode
}

// latePost is a POST that arrived later than its sender's claim and LateArrival allow. This
// happens only if the sender was frozen just before it wrote. It is the one hole that
// docs/design.md#promise-3-at-most-once names, so the ledger does not accept the POST, and the
// parent checks that the sender was frozen.
type latePost struct {
	Worker   string
	ID       batch.ID
	Deadline time.Time
	At       time.Time
}

// ledgerBackend is a ledger that serves requests over a socket.
type ledgerBackend interface {
	restart(down time.Duration) error
	report() report
	url() string
}

// serveLedger is the main function of the ledger's process: it prints the ledger's address and its
// control address, and serves until its standard input ends.
func serveLedger(j childJob, in io.Reader, out io.Writer) error {
	mux := http.NewServeMux()
	var b ledgerBackend
	var err error
	switch j.Ledger {
	case sawtoothNode:
		b, err = newSawtoothBackend(j.Seed)
	case evmNode, evmSigned:
		b, err = newAnvil(j.Dir, j.Ledger == evmSigned)
	case gethNode:
		b, err = newGeth(j.Dir)
	default:
		b, err = newWireServer(j.Seed)
	}
	if err != nil {
		return err
	}
	if c, is := b.(chain); is {
		serveControls(mux, c)
	}
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		ms, err := strconv.Atoi(r.URL.Query().Get("down"))
		if err == nil {
			err = b.restart(time.Duration(ms) * time.Millisecond)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(b.report()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s http://%s\n", b.url(), l.Addr()); err != nil {
		return err
	}
	go func() { _ = http.Serve(l, mux) }() // ends with the process
	_, err = io.Copy(io.Discard, in)
	return err
}

// sawtoothBackend is a Sawtooth validator. Only its chain is durable.
type sawtoothBackend struct{ *sawtoothtest.Node }

func newSawtoothBackend(seed uint64) (ledgerBackend, error) {
	n, err := sawtoothtest.Listen(&sawtoothtest.Options{
		BlockInterval: 25 * time.Millisecond, CacheTime: time.Second,
		Faults: &sawtoothtest.Faults{
			Seed: seed, ResetAfter: 0.02, Late: 0.02, MaxLateDelay: 200 * time.Millisecond, Busy: 0.02, ErrorAfter: 0.01,
			Latency: 0.3, MaxLatency: 60 * time.Millisecond,
		},
	})
	return sawtoothBackend{n}, err
}

func (n sawtoothBackend) url() string { return n.URL() }

func (n sawtoothBackend) restart(down time.Duration) error {
	n.Stop()
	n.Restart()
	time.Sleep(down)
	return n.Resume()
}

func (n sawtoothBackend) report() (r report) {
	for _, id := range n.Chain() {
		r.Executed = append(r.Executed, execution{ID: id})
	}
	for _, e := range n.Journal() {
		switch e.Kind {
		case sawtoothtest.PostStart:
			r.Posts++
		case sawtoothtest.Restarted:
			r.Restarts++
		}
	}
	// POSTs of a worker that was frozen may arrive at any time, and are harmless on Sawtooth.
	if err := n.Check(sawtoothtest.Expectation{TimeTolerance: 1000 * time.Hour}); err != nil {
		r.Breach = err.Error()
	}
	return r
}

// wireServer serves the in-process ledger over a socket.
type wireServer struct {
	ledger *ledgermem.Ledger
	addr   string

	mu        sync.Mutex
	server    *http.Server
	served    chan struct{}
	latePosts []latePost
	posts     []acceptedPost
}

func newWireServer(seed uint64) (ledgerBackend, error) {
	traits := ledgermem.Unforgiving(lateArrival)
	faults := ledgermem.Faults{
		Seed: seed, LostReply: 0.02, LostRequest: 0.02, Late: 0.02, Busy: 0.02,
		MaxLatency: 60 * time.Millisecond, MaxDelay: lateArrival / 2,
	}
	w := &wireServer{
		ledger: ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: 25 * time.Millisecond, Fault: faults.Fault}),
		addr:   "127.0.0.1:0",
	}
	return w, w.listen()
}

func (w *wireServer) url() string { return "http://" + w.addr }

func (w *wireServer) listen() error {
	l, err := net.Listen("tcp", w.addr)
	if err != nil {
		return err
	}
	w.addr = l.Addr().String()
	server, served := &http.Server{Handler: w.handler()}, make(chan struct{})
	w.server, w.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	return nil
}

// restart forgets every status, and the batches that were accepted and not executed.
func (w *wireServer) restart(down time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.server.Close(); err != nil {
		return err
	}
	<-w.served
	w.ledger.Restart()
	time.Sleep(down)
	return w.listen()
}

func (w *wireServer) report() (r report) {
	for _, e := range w.ledger.Journal() {
		switch e.Kind {
		case ledgermem.Executed:
			r.Executed = append(r.Executed, execution{e.Key.Service, e.Key.ID})
		case ledgermem.Invalid:
			r.Invalid = append(r.Invalid, e.Key.ID)
		case ledgermem.PostStart:
			r.Posts++
		case ledgermem.Restarted:
			r.Restarts++
		}
	}
	if err := w.ledger.Verify(nil); err != nil {
		r.Breach = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Late, r.Posted = w.latePosts, w.posts
	return r
}

func (w *wireServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /submit", w.submit)
	mux.HandleFunc("POST /statuses", func(rw http.ResponseWriter, r *http.Request) {
		var attempts []batch.Attempt
		if err := json.NewDecoder(r.Body).Decode(&attempts); err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		statuses, err := w.ledger.BatchStatuses(r.Context(), "", attempts)
		reply(rw, statuses, err)
	})
	mux.HandleFunc("POST /resolve", func(rw http.ResponseWriter, r *http.Request) {
		var d dlt.Doubt
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		e, err := w.ledger.Resolve(r.Context(), d)
		reply(rw, e, err)
	})
	return mux
}

func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has gone
}

func (w *wireServer) submit(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone before the ledger took the batch
	}
	q := r.URL.Query()
	n, err := strconv.Atoi(q.Get("attempt"))
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	ns, err := strconv.ParseInt(q.Get("deadline"), 10, 64)
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	a := batch.Attempt{Key: batch.Key{Service: batch.ServiceID(q.Get("service")), ID: batch.ID(q.Get("id"))}, Number: n, Payload: body}
	if now, deadline := time.Now(), time.Unix(0, ns); now.Sub(deadline) > lateArrival {
		w.mu.Lock()
		w.latePosts = append(w.latePosts, latePost{q.Get("worker"), a.ID, deadline, now})
		w.mu.Unlock()
		rw.WriteHeader(http.StatusGatewayTimeout)
		return
	}
	if bytes.HasPrefix(body, []byte(rejectWord)) { // decided here, because the in-process ledger might lose its answer
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	w.mu.Lock()
	w.posts = append(w.posts, acceptedPost{a.ID, q.Get("worker"), time.Now()})
	w.mu.Unlock()
	switch err := w.ledger.Submit(r.Context(), a); dlt.Kind(err) {
	case "":
		rw.WriteHeader(http.StatusAccepted)
	case batch.KindBusy:
		rw.WriteHeader(http.StatusTooManyRequests)
	case batch.KindRejected:
		rw.WriteHeader(http.StatusForbidden)
	default:
		rw.WriteHeader(http.StatusGatewayTimeout)
	}
}

// wireLedger is the client of wire.
type wireLedger struct {
	dlt.Unimplemented

	url    string
	worker string
	client *http.Client
}

func (*wireLedger) Traits(batch.ServiceID) dlt.Traits { return ledgermem.Unforgiving(lateArrival) }

func (l *wireLedger) Submit(ctx context.Context, a batch.Attempt) error {
	deadline, _ := ctx.Deadline()
	q := url.Values{
		"service": {string(a.Service)}, "id": {string(a.ID)}, "attempt": {strconv.Itoa(a.Number)},
		"worker": {l.worker}, "deadline": {strconv.FormatInt(deadline.UnixNano(), 10)},
	}
	// net/http never resends a request whose body cannot be read twice, hence NopCloser.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/submit?"+q.Encode(), io.NopCloser(bytes.NewReader(a.Payload)))
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(a.Payload))
	resp, err := l.client.Do(req)
	if err != nil {
		return &dlt.Error{Op: "submit", Err: err}
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusAccepted:
		return nil
	case http.StatusTooManyRequests:
		return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy, StatusCode: resp.StatusCode}
	case http.StatusForbidden:
		return &dlt.Error{Op: "submit", Kind: dlt.ErrRejected, StatusCode: resp.StatusCode}
	}
	return &dlt.Error{Op: "submit", StatusCode: resp.StatusCode}
}

func (l *wireLedger) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
	err = l.ask(ctx, "/statuses", attempts, &out)
	return out, err
}

func (l *wireLedger) Resolve(ctx context.Context, a dlt.Doubt) (e dlt.Evidence, err error) {
	err = l.ask(ctx, "/resolve", a, &e)
	return e, err
}

func (l *wireLedger) ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
