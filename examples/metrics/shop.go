package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// shop is the outbox: it writes an order as a row of its own table and as a batch, in one
// transaction.
type shop struct {
	db        *sql.DB
	store     *sqlite.Store
	runner    *dltbatch.Runner
	telemetry http.Handler
	spans     *trace.TracerProvider
}

// open opens the shop in a folder, with metrics, health and traces. save is called with each span.
func open(ctx context.Context, dir string, ledger dlt.Ledger, save spanSaver) (_ *shop, err error) {
	db, err := sqliteopen.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	st, err := sqlite.New(db, nil)
	if err != nil {
		return nil, err
	}
	if err := st.Migrate(ctx); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders_of_the_shop (id TEXT PRIMARY KEY, customer TEXT NOT NULL)`); err != nil {
		return nil, err
	}
	// The sampler follows the parent span. An exporter for Jaeger or Tempo would take the place of
	// this one.
	s := &shop{db: db, store: st, spans: trace.NewTracerProvider(trace.WithSampler(trace.ParentBased(trace.AlwaysSample())), trace.WithSyncer(save))}
	traces, err := otelbatch.NewTraces(s.spans)
	if err != nil {
		return nil, err
	}
	s.runner, s.telemetry, err = newMeasuredRunner(st, ledger, &dltbatch.Options{
		Retry:       dltbatch.RetryPolicy{Delay: 100 * time.Millisecond},
		TraceParent: otelbatch.TraceParent, TraceRequest: traces.Request, Observers: []batch.Observer{traces},
	})
	return s, err
}

func (s *shop) close(ctx context.Context) error {
	return errors.Join(s.spans.Shutdown(context.WithoutCancel(ctx)), s.db.Close())
}

// placeOrder stores an order and its batch. The batch has the trace context of ctx.
func (s *shop) placeOrder(ctx context.Context, id, customer string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders_of_the_shop (id, customer) VALUES (?, ?)`, id, customer); err != nil {
		return err
	}
	service := batch.ServiceID(customer)
	if err := s.runner.AddTx(ctx, s.store.Tx(tx), batch.Batch{Service: service, ID: batch.ID(id), Payload: []byte("x")}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.runner.Wake(service)
	return nil
}

// handler serves the shop, and its telemetry.
func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", s.telemetry)
	mux.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := s.spans.Tracer("shop").Start(ctx, "POST /orders")
		defer span.End()
		if err := s.placeOrder(ctx, r.PathValue("id"), "customer-0"); err != nil {
			http.Error(w, fmt.Sprintf("the order was not stored: %v", err), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "/metrics  for Prometheus\n/livez    is the process alive?\n/readyz   can it take orders?\nPOST /orders/ID places an order\n")
	})
	return mux
}
