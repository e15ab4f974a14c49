package dltbatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// unstick does for a batch that does not move what Explain recommends.
func unstick(ctx context.Context, runner *dltbatch.Runner, key batch.Key) error {
	by := batch.By{Actor: "ada", Reason: "ticket 17"}
	why, err := runner.Explain(ctx, key)
	if err != nil {
		return err
	}
	fmt.Println(why.Text)
	switch why.Remedy {
	case batch.RemedyResume:
		_, err = runner.Resume(ctx, why.Control, by)
	case batch.RemedyRelease: // a person has read why.Blocker
		_, err = runner.Release(ctx, why.Control, by)
	case batch.RemedyDecide: // a person has read the ledger: it is not there, so send it again
		_, err = runner.Decide(ctx, why.Seen(), batch.NotExecutedSendAgain, by)
	}
	return err
}

// A lane is paused, and a person finds out why its batch is not sent.
func ExampleRunner_Explain() {
	ctx := context.Background()
	runner, err := dltbatch.New(memory.New(), ledgermem.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("x")}
	if err := runner.Add(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := runner.Pause(ctx, batch.Everything(), batch.By{Actor: "bob", Reason: "upgrade of the node"}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if err := unstick(ctx, runner, b.Key()); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// queued: everything was paused by bob (upgrade of the node); resume it
	// queued: nothing holds it; the next round of a running instance takes it
}

// A POST was lost, the ledger executes duplicates, and no evidence shows whether the ledger got
// the batch. The Runner asks for a decision instead of sending the batch again.
func ExampleRunner_Decide() {
	traits := ledgermem.Unforgiving(0)
	traits.Resolves = false // this ledger gives no evidence about an attempt
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) (f ledgermem.Fault) {
		if a.Number == 1 {
			f.Kind = ledgermem.LostRequest
		}
		return f
	}})
	undecided := make(chan batch.Key, 1)
	runner, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{
		Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventDecision {
				undecided <- e.Key
			}
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	b := batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("x")}
	if err := runner.Add(ctx, b); err != nil {
		fmt.Println(err)
	}
	if err := unstick(ctx, runner, <-undecided); err != nil {
		fmt.Println(err)
	}
	rec, err := runner.Await(ctx, b.Key())
	fmt.Println(rec.State, "by attempt", rec.Attempt, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// submitting: a person has to decide: doubt: not found, and this ledger gives no evidence (last error: doubt: submit: connection lost)
	// committed by attempt 2 <nil>
	// <nil>
}

// A service serves two HTTP probes: whether it is alive, and whether it can take requests.
func Example_probes() {
	runner, err := dltbatch.New(memory.New(), ledgermem.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe.Live(runner, nil))
	mux.Handle("GET /readyz", probe.Ready(runner, &probe.Options{Ledger: -1, Streams: -1}))
	for _, path := range []string{"/livez", "/readyz"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	// Output:
	// 200 {"ok":true,"health":{"running":false,"paused":false,"store":{"condition":"idle"},"ledger":{"condition":"idle"},"streams":{"condition":"idle"}},"attention":[{"part":"run","text":"Run does not run"}]}
	// 503 {"ok":false,"why":["Run does not run"],"health":{"running":false,"paused":false,"store":{"condition":"idle"},"ledger":{"condition":"idle"},"streams":{"condition":"idle"}},"attention":[{"part":"run","text":"Run does not run"}]}
}

// withMetrics delivers until ctx is done, and reports metrics to the provider's exporters.
func withMetrics(ctx context.Context, provider metric.MeterProvider, st store.Store, ledger dlt.Ledger, mine batch.Observer) error {
	metrics, err := otelbatch.NewMetrics(provider) // once in a process
	if err != nil {
		return err
	}
	runner, err := metrics.NewRunner(st, ledger, &dltbatch.Options{Observer: mine}) // in place of dltbatch.New
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// withTraces delivers until ctx is done, and reports spans to the provider's exporters.
func withTraces(ctx context.Context, provider trace.TracerProvider, st store.Store, ledger dlt.Ledger) error {
	traces, err := otelbatch.NewTraces(provider) // once in a process
	if err != nil {
		return err
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{
		TraceParent: otelbatch.TraceParent, TraceRequest: traces.Request, Observers: []batch.Observer{traces},
	})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// The application brings OpenTelemetry's SDK and its sampler.
func Example_traces() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	fmt.Println(withTraces(ctx, notraces.NewTracerProvider(), memory.New(), ledgermem.New(nil)))
	// Output: <nil>
}

// The application brings OpenTelemetry's SDK. The program examples/metrics serves the metrics to
// Prometheus.
func Example_metrics() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	fmt.Println(withMetrics(ctx, noop.NewMeterProvider(), memory.New(), ledgermem.New(nil), nil))
	// Output: <nil>
}

// rejected prints every rejected batch of a service, page by page.
func rejected(ctx context.Context, runner *dltbatch.Runner, service batch.ServiceID) error {
	for rec, err := range runner.All(ctx, store.ListQuery{Service: &service, States: []batch.State{batch.Rejected}}) {
		if err != nil {
			return err
		}
		fmt.Println(rec, rec.Error)
	}
	return nil
}

func ExampleRunner_All() {
	ctx, by := context.Background(), batch.By{Actor: "ada", Reason: "not needed any more"}
	runner, err := dltbatch.New(memory.New(), ledgermem.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := runner.Add(ctx, batch.Batch{Service: "shipments", ID: "b1", Payload: []byte("x")}); err != nil {
		fmt.Println(err)
		return
	}
	rec, err := runner.Get(ctx, batch.Key{Service: "shipments", ID: "b1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := runner.Cancel(ctx, rec, by); err != nil {
		fmt.Println(err)
		return
	}
	if err := rejected(ctx, runner, "shipments"); err != nil {
		fmt.Println(err)
	}
	// Output: shipments/b1: rejected cancelled: not needed any more
}
