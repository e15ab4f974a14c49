package splintertest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// nodeProxy stands in front of a node. It counts the requests, and does what a proxy may do and a
// node never does: it redirects, or changes an answer.
type nodeProxy struct {
	*dlttest.Server
	t       dlttest.TB
	network *splintertest.Network
	key     *sawtooth.PrivateKey
	node    http.Handler
}

func startConformance(t dlttest.TB, o splintertest.Options) *dlttest.Harness {
	d := &nodeProxy{t: t}
	o.Faults = &splintertest.Faults{Request: d.drawFault}
	d.network = splintertest.Start(t, &o)
	d.node = d.network.Handler(0)
	d.Server = dlttest.NewServer(t, 1, d)
	var err error
	d.key, err = sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	client, err := splinter.New(d.URLs()[0], &splinter.Options{
		LateArrival: 30 * time.Millisecond, ClockMargin: time.Millisecond,
		Token: splinter.CylinderToken(d.key),
	})
	require.NoError(t, err)
	d.CloseIdle = client.CloseIdleConnections
	t.Cleanup(client.CloseIdleConnections)
	var services []batch.ServiceID
	for _, s := range d.network.Services() {
		if d.network.NodeOf(s) == 0 {
			services = append(services, s)
		}
	}
	return &dlttest.Harness{
		Ledger: client, Batch: d.batch, Set: d.set, LargestQuery: d.LargestQuery,
		// d.Posts counts the POSTs that the node does not get.
		Posts:    func(id batch.ID) int { return d.network.Posts(id) + d.Posts(id) },
		Services: services, RetryAfter: 7 * time.Second,
		Lacks: map[dlttest.Fault]string{dlttest.NotYet: "no answer of it says of one batch that it cannot be now"},
	}
}

func (d *nodeProxy) set(f dlttest.Fault) {
	if f == dlttest.StreamCut {
		d.network.CutStreams(0)
	}
	d.Set(f)
}

func (d *nodeProxy) batch(s batch.ServiceID, content string) batch.Batch {
	payload, address := splintertest.Set(content, 1)
	if d.Fault() == dlttest.Decided {
		payload, address = splintertest.Invalid(content)
	}
	b, err := sawtooth.Build(d.key, s, sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	require.NoError(d.t, err)
	return b
}

// drawFault makes the faults that the node can make by itself.
func (d *nodeProxy) drawFault(p splintertest.RequestPoint) splintertest.Fault {
	submits := map[dlttest.Fault]splintertest.Fault{
		dlttest.Busy:          {Answer: splintertest.AnswerError, Status: 429},
		dlttest.Refused:       {Answer: splintertest.AnswerError, Status: 400, Body: `{"code":"400","message":"No valid batches provided"}`},
		dlttest.Misconfigured: {Answer: splintertest.AnswerError, Status: 401, Body: `{"code":"401","message":"no"}`},
		dlttest.UnknownAnswer: {Answer: splintertest.AnswerError, Status: 418},
		dlttest.LostRequest:   {Answer: splintertest.AnswerReset},
		dlttest.LostReply:     {Answer: splintertest.AnswerReset, Acceptance: splintertest.AcceptedFirst},
		dlttest.Hang:          {Answer: splintertest.AnswerNever, Acceptance: splintertest.AcceptedFirst},
	}
	queries := map[dlttest.Fault]splintertest.Fault{
		dlttest.StatusLost:    {Answer: splintertest.AnswerReset},
		dlttest.StatusHang:    {Answer: splintertest.AnswerNever},
		dlttest.StatusGarbage: {Answer: splintertest.AnswerError, Status: 200, Body: "<html>"},
	}
	switch p.Operation {
	case splintertest.OpSubmit:
		return submits[d.Fault()]
	case splintertest.OpStatuses:
		return queries[d.Fault()]
	}
	return splintertest.Fault{}
}

func (d *nodeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := d.Fault()
	if strings.HasSuffix(r.URL.Path, "/batch_statuses") {
		d.forwardQuery(w, r, fault)
		return
	}
	elsewhere, moved := strings.CutPrefix(r.URL.Path, "/elsewhere")
	r.URL.Path = elsewhere
	switch {
	case fault == dlttest.Redirect && !moved:
		d.redirectToNode(w, r)
		return
	case fault == dlttest.Busy:
		w.Header().Set("Retry-After", "7")
	}
	d.node.ServeHTTP(w, r)
}

// redirectToNode counts a POST that no node sees, and redirects it.
func (d *nodeProxy) redirectToNode(w http.ResponseWriter, r *http.Request) {
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
		for _, b := range bs {
			d.Posted(b.ID)
		}
	}
	w.Header().Set("Location", "/elsewhere"+r.URL.Path)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (d *nodeProxy) forwardQuery(w http.ResponseWriter, r *http.Request, fault dlttest.Fault) {
	d.Queried(len(strings.Split(r.URL.Query().Get("ids"), ",")))
	bend, bent := map[dlttest.Fault]func([]any) []any{
		dlttest.StatusUnknownWord: func(l []any) []any {
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
	_ = json.NewEncoder(w).Encode(bend(doc)) // the client may have ended the connection
}

// TestConformance runs the suite of dlttest on the client of package splinter.
func TestConformance(t *testing.T) {
	circuits := func(version int) []splintertest.Circuit {
		return []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}, {ID: "ccccc-ddddd", Version: version}}
	}
	for name, o := range map[string]splintertest.Options{
		"v2":     {Circuits: circuits(2)},
		"v1":     {Circuits: circuits(1)},
		"v2 old": {Circuits: circuits(2), Before0613: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "v2" {
				tier.Plain(t) // starts the same goroutines as version 2
			}
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness { return startConformance(t, o) })
		})
	}
}
