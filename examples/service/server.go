package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// config holds the settings from flags and the environment.
type config struct {
	listen, node, database, schema, password string
	log                                      *slog.Logger
}

// serve opens the parts of the service, and serves until ctx is done or do has returned.
func serve(ctx context.Context, c config, do func(ctx context.Context, url string) error) error {
	pool, err := pgxpool.New(ctx, c.database)
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := native.New(pool, &postgres.Options{Schema: c.schema, Prefix: "dltbatch_"})
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, createTable); err != nil {
		return err
	}
	ledger, err := sawtooth.New(c.node, nil)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return err
	}
	metrics, err := otelbatch.NewMetrics(sdk.NewMeterProvider(sdk.WithReader(reader)))
	if err != nil {
		return err
	}
	runner, err := metrics.NewRunner(st, ledger, &dltbatch.Options{Logger: c.log})
	if err != nil {
		return err
	}
	key, err := sawtooth.GeneratePrivateKey() // a service reads its key from where it keeps its secrets
	if err != nil {
		return err
	}
	desk, err := console.New(st, &console.Options{Title: "payments", Logger: c.log, Actor: actorOf})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/payments/", (&payments{books: postgresBooks{pool, st}, runner: runner, key: key}).handler())
	mux.Handle("/console/", requirePassword(c.password, http.StripPrefix("/console", desk)))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /livez", probe.Live(runner, nil))
	mux.Handle("GET /readyz", probe.Ready(runner, &probe.Options{Ledger: -1, Streams: -1})) // ready without the ledger, too, since it still takes payments
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return err
	}

	// First the server stops taking requests, then the POSTs under way end.
	parts, ctx := errgroup.WithContext(ctx)
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	parts.Go(func() error { return runner.Run(delivering) })
	parts.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	parts.Go(func() error {
		err := do(ctx, "http://"+listener.Addr().String())
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, server.Shutdown(bound))
		stop()
		return err
	})
	return parts.Wait()
}

// requirePassword asks for the password. Replace it with your single sign-on.
func requirePassword(password string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="console"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// actorOf returns the name of the person who acts in the console, for the history.
func actorOf(r *http.Request) (string, error) {
	name, _, _ := r.BasicAuth()
	return name, nil
}
