package splintertest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// door stands before a node, counts what comes in, and does what a node never
// does but a proxy may: redirect, or bend an answer.
type door struct {
	t    dlttest.TB
	net  *splintertest.Network
	key  *sawtooth.PrivateKey
	node http.Handler

	mu      sync.Mutex
	fault   dlttest.Fault
	largest int
	extra   map[batch.ID]int // POSTs that the node did not see

	addr   string
	server *http.Server // nil while nobody listens
	served sync.WaitGroup
	forget func() // the client's idle connections
}

func openDoor(t dlttest.TB, o splintertest.Options) *dlttest.Harness {
	d := &door{t: t, addr: "127.0.0.1:0", extra: map[batch.ID]int{}}
	o.Faults = &splintertest.Faults{Request: d.request}
	d.net = splintertest.Start(t, &o)
	d.node = d.net.Handler(0)
	d.listen()
	t.Cleanup(d.shut)
	var err error
	d.key, err = sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	client, err := splinter.New("http://"+d.addr, &splinter.Options{
		LateArrival: 30 * time.Millisecond, Margin: time.Millisecond,
		Token: splinter.CylinderToken(d.key),
	})
	require.NoError(t, err)
	d.forget = client.CloseIdleConnections
	t.Cleanup(client.CloseIdleConnections)
	var services []batch.ServiceID
	for _, s := range d.net.Services() {
		if d.net.NodeOf(s) == 0 {
			services = append(services, s)
		}
	}
	return &dlttest.Harness{
		Ledger: client, Batch: d.batch, Set: d.set, Posts: d.count, LargestQuery: d.largestQuery,
		Services: services, RetryAfter: 7 * time.Second,
		Lacks: map[dlttest.Fault]string{dlttest.NotYet: "no answer of it says of one batch that it cannot be now"},
	}
}

func (d *door) listen() {
	l, err := net.Listen("tcp", d.addr)
	require.NoError(d.t, err)
	d.addr = l.Addr().String()
	s := &http.Server{Handler: d, ReadHeaderTimeout: time.Minute}
	d.server = s
	d.served.Go(func() { _ = s.Serve(l) }) // it ends when the server is closed
}

func (d *door) shut() {
	if d.server != nil {
		_ = d.server.Close()
	}
	d.server = nil
	d.served.Wait()
}

func (d *door) set(f dlttest.Fault) {
	d.mu.Lock()
	d.fault = f
	d.mu.Unlock()
	if f == dlttest.StreamCut {
		d.net.CutStreams(0)
	}
	down := f == dlttest.Unreachable || f == dlttest.StatusUnreachable
	switch {
	case down && d.server != nil:
		d.shut()
		d.forget() // else the next request may still go out on a connection that is being closed
	case !down && d.server == nil:
		d.listen()
	}
}

func (d *door) current() dlttest.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault
}

func (d *door) batch(s batch.ServiceID, content string) batch.Batch {
	payload, address := splintertest.Set(content, 1)
	if d.current() == dlttest.Decided {
		payload, address = splintertest.Fail(content)
	}
	b, err := sawtooth.Build(d.key, s, sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	require.NoError(d.t, err)
	return b
}

func (d *door) count(id batch.ID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.net.Posts(id) + d.extra[id]
}

func (d *door) largestQuery() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.largest
}

// request is the faults that a node has itself.
func (d *door) request(p splintertest.Point) splintertest.Fault {
	submits := map[dlttest.Fault]splintertest.Fault{
		dlttest.Busy:          {Answer: splintertest.AnswerError, Status: 429},
		dlttest.Refused:       {Answer: splintertest.AnswerError, Status: 400, Body: `{"code":"400","message":"No valid batches provided"}`},
		dlttest.Misconfigured: {Answer: splintertest.AnswerError, Status: 401, Body: `{"code":"401","message":"no"}`},
		dlttest.Unheard:       {Answer: splintertest.AnswerError, Status: 418},
		dlttest.LostRequest:   {Answer: splintertest.AnswerReset},
		dlttest.LostReply:     {Answer: splintertest.AnswerReset, Taken: splintertest.TakenFirst},
		dlttest.Hang:          {Answer: splintertest.AnswerNever, Taken: splintertest.TakenFirst},
	}
	queries := map[dlttest.Fault]splintertest.Fault{
		dlttest.StatusLost:    {Answer: splintertest.AnswerReset},
		dlttest.StatusHang:    {Answer: splintertest.AnswerNever},
		dlttest.StatusGarbage: {Answer: splintertest.AnswerError, Status: 200, Body: "<html>"},
	}
	switch p.Operation {
	case splintertest.OpSubmit:
		return submits[d.current()]
	case splintertest.OpStatuses:
		return queries[d.current()]
	}
	return splintertest.Fault{}
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := d.current()
	if strings.HasSuffix(r.URL.Path, "/batch_statuses") {
		d.query(w, r, fault)
		return
	}
	elsewhere, moved := strings.CutPrefix(r.URL.Path, "/elsewhere")
	r.URL.Path = elsewhere
	switch {
	case fault == dlttest.Redirect && !moved:
		d.redirect(w, r)
		return
	case fault == dlttest.Busy:
		w.Header().Set("Retry-After", "7")
	}
	d.node.ServeHTTP(w, r)
}

// redirect counts the POST that no node sees.
func (d *door) redirect(w http.ResponseWriter, r *http.Request) {
	list := make([]byte, max(r.ContentLength, 0))
	n := 0
	for n < len(list) {
		m, err := r.Body.Read(list[n:])
		n += m
		if err != nil {
			break
		}
	}
	if bs, err := sawtooth.SplitBatchList(list[:n], ""); err == nil {
		d.mu.Lock()
		for _, b := range bs {
			d.extra[b.ID]++
		}
		d.mu.Unlock()
	}
	w.Header().Set("Location", "/elsewhere"+r.URL.Path)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (d *door) query(w http.ResponseWriter, r *http.Request, fault dlttest.Fault) {
	d.mu.Lock()
	d.largest = max(d.largest, len(strings.Split(r.URL.Query().Get("ids"), ",")))
	d.mu.Unlock()
	bend, bent := map[dlttest.Fault]func([]any) []any{
		dlttest.StatusWord: func(l []any) []any {
			l[0].(map[string]any)["status"].(map[string]any)["statusType"] = "Sublime"
			return l
		},
		dlttest.StatusMissing:  func(l []any) []any { return l[1:] },
		dlttest.StatusShuffled: func(l []any) []any { slices.Reverse(l); return l },
		dlttest.StatusStranger: func(l []any) []any {
			other := maps.Clone(l[0].(map[string]any))
			other["id"] = strings.Repeat("0", 128)
			return append(l, other)
		},
	}[fault]
	if !bent {
		d.node.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	d.node.ServeHTTP(answer, r)
	var doc []any
	if err := json.Unmarshal(answer.Body.Bytes(), &doc); err != nil || answer.Code != http.StatusOK {
		http.Error(w, fmt.Sprintf("cannot bend: %d %v", answer.Code, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(bend(doc)) // the client may have left
}

// TestConformance holds the client of package splinter against the contract.
func TestConformance(t *testing.T) {
	circuits := func(version int) []splintertest.Circuit {
		return []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}, {ID: "ccccc-ddddd", Version: version}}
	}
	for name, o := range map[string]splintertest.Options{
		"v2":     {Circuits: circuits(2)},
		"v1":     {Circuits: circuits(1)},
		"v2 old": {Circuits: circuits(2), Old: true},
	} {
		t.Run(name, func(t *testing.T) {
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return openDoor(t, o) })
		})
	}
}
