package ordercrash

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// Variable is the environment variable that makes a test binary a worker. If it is set, the
// binary's TestMain calls [Work].
const Variable = "DLTBATCH_ORDERCRASH_JOB"

// workerJob is the configuration of a worker, as JSON in its environment.
type workerJob struct {
	URL           string // the URL of the participant
	Driver, DSN   string
	DecidedWithin time.Duration
	WithHints     bool // true if the Runner and the Engine give each other hints
	KillWindow    Window
	KillAtNth     int64
}

// Open opens the store of a worker. connect has the parameters of sql.Open.
type Open func(connect func(driver, dsn string) (*sql.DB, error), driver, dsn string) (Store, error)

// These times are short, so that another worker soon takes over the batches of a dead one.
const (
	requestTimeout    = 400 * time.Millisecond
	claimTTL          = 800 * time.Millisecond
	lateArrival       = 400 * time.Millisecond
	noTraceGrace      = 400 * time.Millisecond
	stuckAfter        = 1500 * time.Millisecond
	maxOrdersPerBatch = 6
	maxAttempts       = 4
)

const deadlineHeader = "X-Deadline" // the deadline of a submission's context, in nanoseconds

// deadlineTransport tells the parent the deadline of each request, however late the request
// arrives.
type deadlineTransport struct{ http.RoundTripper }

func (s deadlineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if d, ok := r.Context().Deadline(); ok {
		r = r.Clone(r.Context())
		r.Header.Set(deadlineHeader, strconv.FormatInt(d.UnixNano(), 10))
	}
	return s.RoundTripper.RoundTrip(r)
}

// killerLedger kills the process while a request is on the wire, or after an answer that no other
// process has seen.
type killerLedger struct {
	*canton.Client
	killer *killer
}

func (l killerLedger) Submit(ctx context.Context, a batch.Attempt) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { l.killer.dieIfReached(duringPost) },
		WroteRequest: func(httptrace.WroteRequestInfo) { l.killer.dieIfReached(duringPost) },
	})
	err := l.Client.Submit(ctx, a)
	l.killer.dieIfReached(afterAnswer)
	return err
}

func (l killerLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	out, err := l.Client.BatchStatuses(ctx, s, attempts)
	for _, status := range out {
		if status.Reported != batch.ReportedUnknown {
			l.killer.dieIfReached(afterCompletions)
			break
		}
	}
	return out, err
}

// transfer makes the command of an order, whose payload is a transfer.
func transfer(_ context.Context, o order.Order) (canton.OrderCommands, error) {
	var t cantontest.Transfer
	if err := json.Unmarshal(o.Payload, &t); err != nil {
		return canton.OrderCommands{}, &batch.InputError{Field: "Order.Payload", Want: "a transfer"}
	}
	var doc struct{ Commands []json.RawMessage }
	if err := json.Unmarshal(cantontest.Payload(t), &doc); err != nil {
		return canton.OrderCommands{}, err
	}
	return canton.OrderCommands{Commands: doc.Commands}, nil
}

// RunWorker is the main func of a worker: an application with a Runner and an Engine, which adds
// the orders that the parent sends. It prints its address, and returns when its standard input
// ends.
func RunWorker(text string, open Open) error {
	var j workerJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	k := &killer{window: j.KillWindow, dieAtNth: j.KillAtNth}
	st, err := open(k.connect, j.Driver, j.DSN)
	if err != nil {
		return err
	}
	client, err := canton.New(j.URL, &canton.Options{
		UserID: "app", IdleWait: 10 * time.Millisecond, LateArrival: lateArrival, Grace: noTraceGrace, DecidedWithin: j.DecidedWithin,
		PollOnly: !j.WithHints, Client: &http.Client{Transport: deadlineTransport{&http.Transport{MaxIdleConnsPerHost: 16}}},
	})
	if err != nil {
		return err
	}
	builder, err := canton.NewOrderBuilder(transfer, nil)
	if err != nil {
		return err
	}
	o := autobatch.Options{
		MaxSize: maxOrdersPerBatch, MaxAttempts: maxAttempts, BatchInterval: 50 * time.Millisecond, MonitorInterval: 50 * time.Millisecond,
		RetryInterval: 100 * time.Millisecond, RecoveryInterval: 100 * time.Millisecond, Drain: 20 * time.Second,
	}
	ro := dltbatch.Options{
		RequestTimeout: requestTimeout, ClaimTTL: claimTTL, PollInterval: 50 * time.Millisecond, ScanInterval: 50 * time.Millisecond,
		Retry:      dltbatch.RetryPolicy{Delay: 20 * time.Millisecond, MaxDelay: 200 * time.Millisecond, QuickRetryPause: 10 * time.Millisecond},
		StuckAfter: stuckAfter, Drain: 20 * time.Second,
	}
	var runner *dltbatch.Runner
	if j.WithHints {
		o.Wake = func(s batch.ServiceID) { runner.Wake(s) }
	}
	engine, err := autobatch.New(killerStore{st, k}, builder, &o)
	if err != nil {
		return err
	}
	if j.WithHints {
		ro.Observer = engine
	}
	if runner, err = dltbatch.New(killerStore{st, k}, killerLedger{client, k}, &ro); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, addHandler(engine)) }() // ends with the process
	fmt.Printf("http://%s\n", l.Addr())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	errs := make([]error, 2)
	running.Go(func() { errs[0] = runner.Run(ctx) })
	running.Go(func() { errs[1] = engine.Run(ctx) })
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	stop()
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func addHandler(e *autobatch.Engine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var orders []order.Order
		if err := json.NewDecoder(r.Body).Decode(&orders); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), addTimeout)
		defer cancel()
		if err := e.Add(ctx, orders...); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}
