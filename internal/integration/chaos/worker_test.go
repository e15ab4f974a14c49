package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// childJob is a child's configuration, as JSON in its environment.
type childJob struct {
	Role   string // "worker" or "ledger"
	Name   string
	Ledger string // kind of ledger
	Seed   uint64
	URL    string // of the ledger, through the proxy
	Driver string // one of allDrivers
	DSN    string // through the proxy
	Audit  string // the file that a worker appends to
	Dir    string // the folder for the ledger's files
	Pauses bool   // postgres.Options.PauseOnLostCommits
}

const jobVariable = "DLTBATCH_CHAOS_JOB"

// Times are short, so that another worker soon takes over a dead worker's batches.
const (
	requestTimeout = 600 * time.Millisecond
	claimTTL       = 2 * time.Second
	addTimeLimit   = 3 * time.Second
	pollInterval   = 150 * time.Millisecond
)

func runChild(text string) error {
	var j childJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if j.Role == "ledger" {
		return serveLedger(j, os.Stdin, os.Stdout)
	}
	return runWorker(j, os.Stdin, os.Stdout)
}

// runWorker is the main function of a worker's process: an application with a Runner, which adds
// the batches that the parent sends. It prints its address, and ends when its standard input does.
func runWorker(j childJob, in io.Reader, out io.Writer) error {
	file, err := os.OpenFile(j.Audit, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	audit := &auditor{file: file}
	faults := flaky.New(j.Seed, 10)
	inner, err := j.store(faults)
	if err != nil {
		return err
	}
	ledger, err := j.newClient()
	if err != nil {
		return err
	}
	o := j.options()
	o.Observer = audit
	runner, err := dltbatch.New(auditedStore{inner, audit}, ledger, o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", addHandler(runner))
	mux.HandleFunc("POST /statements", func(w http.ResponseWriter, r *http.Request) {
		faults.SetCalm(r.URL.Query().Get("fail") != "yes")
		_ = json.NewEncoder(w).Encode(faults.String())
	})
	go func() { _ = http.Serve(l, mux) }() // ends with the process
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- keepRunning(ctx, runner) }()
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	stop()
	return <-ended
}

// options returns the options of each Runner.
func (j childJob) options() *dltbatch.Options {
	o := &dltbatch.Options{
		RequestTimeout: requestTimeout, ClaimTTL: claimTTL, PollInterval: pollInterval,
		ScanInterval: 200 * time.Millisecond, Retry: dltbatch.RetryPolicy{Delay: 50 * time.Millisecond, MaxDelay: 500 * time.Millisecond, QuickRetryPause: 50 * time.Millisecond}, Drain: 15 * time.Second,
	}
	if onChain(j.Ledger) {
		o.Strategy = queuer.Pipelined(4)
	}
	return o
}

// store opens a store whose statements fail at times.
func (j childJob) store(faults *flaky.Faults) (*postgres.Store, error) {
	o := &postgres.Options{PauseOnLostCommits: j.Pauses}
	if j.Driver == "native" {
		config, err := pgxpool.ParseConfig(j.DSN + "&pool_max_conns=20")
		if err != nil {
			return nil, err
		}
		config.ConnConfig.DialFunc = faults.Dial
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return nil, err
		}
		st, err := native.New(pool, o)
		if err != nil {
			return nil, err
		}
		return st.Store, nil
	}
	db, err := faults.Open(j.Driver, j.DSN)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(8)
	db.SetMaxOpenConns(20)
	return postgres.New(db, o)
}

// keepRunning restarts the Runner as a supervisor would, because the database may be down when the
// Runner starts.
func keepRunning(ctx context.Context, r *dltbatch.Runner) error {
	for {
		try, cancel := context.WithCancel(ctx)
		err := r.Run(try)
		cancel()
		if ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func addHandler(r *dltbatch.Runner) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var batches []batch.Batch
		if err := json.NewDecoder(req.Body).Decode(&batches); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(req.Context(), addTimeLimit)
		defer cancel()
		if err := r.Add(ctx, batches...); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

func (j childJob) newClient() (dlt.Ledger, error) {
	if j.Ledger == sawtoothNode {
		return sawtooth.New(j.URL, &sawtooth.Options{
			Grace: 700 * time.Millisecond, ResendQuiet: 1500 * time.Millisecond, Settle: 100 * time.Millisecond,
		})
	}
	if j.Ledger == evmNode || j.Ledger == gethNode {
		return j.newIntentClient()
	}
	if j.Ledger == evmSigned {
		return j.newSignedClient()
	}
	return &wireLedger{url: j.URL, worker: j.Name, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}, nil
}

// auditEntry is a line of a worker's audit.
type auditEntry struct {
	Op      string    // "claim", "write", "fenced", "breach", "decision", "trouble", "lost"
	ID      batch.ID  `json:",omitempty"`
	Was     int64     `json:",omitempty"` // the version that an outcome carried
	Version int64     `json:",omitempty"` // that the row has now
	Fact    bool      `json:",omitempty"` // a commit, which is applied with any version
	Text    string    `json:",omitempty"`
	At      time.Time `json:",omitzero"` // of "trouble" and "lost"
}

// auditor writes every change that the store accepted to a file, before the Runner gets the
// result.
type auditor struct {
	mu   sync.Mutex
	file *os.File
}

func (a *auditor) write(entries ...auditEntry) {
	var lines []byte
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.file.Write(lines); err != nil {
		panic(err)
	}
}

// Observe implements [batch.Observer].
func (a *auditor) Observe(_ context.Context, e batch.Event) {
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	if errors.Is(e.Err, postgres.ErrLostCommits) {
		a.write(auditEntry{Op: "lost", Text: text, At: time.Now()})
	}
	switch e.Kind {
	case batch.EventOrderBreach:
		a.write(auditEntry{Op: "breach", ID: e.Key.ID, Text: text})
	case batch.EventDecision:
		a.write(auditEntry{Op: "decision", ID: e.Key.ID, Text: text})
	case batch.EventLaneHeld, batch.EventTrouble:
		a.write(auditEntry{Op: "trouble", Text: text, At: time.Now()})
	}
}

// auditedStore is a store that writes its claims and writes to the audit.
type auditedStore struct {
	*postgres.Store
	audit *auditor
}

func (s auditedStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	c, err := s.Store.Claim(ctx, q, choose)
	var lines []auditEntry
	for _, r := range c.Runs {
		for _, b := range r.Batches {
			lines = append(lines, auditEntry{Op: "claim", ID: b.Key.ID, Version: b.Version})
		}
	}
	if err == nil && len(lines) > 0 {
		s.audit.write(lines...)
	}
	return c, err
}

func (s auditedStore) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	applied, err := s.Store.Record(ctx, outcomes)
	var lines []auditEntry
	for i, a := range applied {
		o := outcomes[i]
		fact := o.Finding == store.IsCommitted
		switch {
		case a.Result == store.Written && fact && a.From == batch.Committed: // the commit was known already, and nothing was written
		case a.Result == store.Written:
			lines = append(lines, auditEntry{Op: "write", ID: o.Key.ID, Was: o.Version, Version: a.Row.Version, Fact: fact, Text: o.Finding.String()})
		case a.Result == store.Fenced:
			lines = append(lines, auditEntry{Op: "fenced", ID: o.Key.ID, Was: o.Version, Version: a.Row.Version, Text: o.Finding.String()})
		case a.Result == store.Gone && o.Finding == store.Unposted:
			// The Runner puts back a claim whose COMMIT had no answer. If the batch's Add was not
			// acknowledged, the batch may have been lost with the database's machine. It was not
			// sent.
		case a.Result == store.Bad || a.Result == store.Gone:
			lines = append(lines, auditEntry{Op: "bad", ID: o.Key.ID, Text: fmt.Sprint(o.Finding, ": ", a.Err)})
		}
	}
	if err == nil && len(lines) > 0 {
		s.audit.write(lines...)
	}
	return applied, err
}
