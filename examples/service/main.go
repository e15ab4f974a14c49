// Service is a whole small service around dltbatch, to begin yours with. It takes payments over
// HTTP, writes each to its own table and adds its batch in the same transaction of pgx, and
// delivers in the same process. It has metrics, probes, a console behind a password, and a clean
// stop. payments.go has the service's own work, and payments_test.go tests it in virtual time;
// server.go puts the parts together.
//
// It is a module of its own, because it brings OpenTelemetry's SDK and pgx:
//
//	go run -C examples/service . -install   (twenty payments on a throwaway PostgreSQL, and the proof)
//
//	DATABASE_URL=postgres://... SERVICE_PASSWORD=... go run -C examples/service . -listen 127.0.0.1:8080
//
// With -listen it serves until SIGTERM:
//
//	curl -X POST http://127.0.0.1:8080/payments/p-1 -d '{"to":"ann","cents":500}'
//	curl http://127.0.0.1:8080/payments/p-1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/examples/internal/throwaway"
)

const usageText = `Service is a whole small service: payments over HTTP, a row and a batch in one transaction of
PostgreSQL, metrics, probes, a console behind a password. Without -listen it makes twenty payments
and proves that each took effect once. It uses DATABASE_URL, or the PostgreSQL that is installed,
or brings one with -install.

usage: go run -C examples/service . [flags]
`

func main() {
	listen := flag.String("listen", "", "serve here until SIGTERM")
	node := flag.String("node", "", "a Sawtooth node's REST API; default: a simulated one")
	install := flag.Bool("install", false, "bring PostgreSQL into the user's cache where none is found")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("service", func(ctx context.Context, out io.Writer, _ bool) error {
		c := config{listen: *listen, node: *node, database: os.Getenv("DATABASE_URL"), password: os.Getenv("SERVICE_PASSWORD")}
		return run(ctx, out, c, *install)
	})
}

// run completes the configuration, and starts the service.
func run(ctx context.Context, out io.Writer, c config, install bool) error {
	c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var simulated *sawtoothtest.Node
	if c.node == "" {
		var err error
		if simulated, err = sawtoothtest.Listen(&sawtoothtest.Options{BlockInterval: 100 * time.Millisecond}); err != nil {
			return err
		}
		defer simulated.Close()
		c.node = simulated.URL()
	}
	if c.listen != "" {
		if c.database == "" || c.password == "" {
			return errors.New("-listen wants DATABASE_URL and SERVICE_PASSWORD")
		}
		return serve(ctx, c, func(ctx context.Context, url string) error {
			fmt.Fprintf(out, "serving %s/payments/ID, /metrics, /livez, /readyz, and /console/ for anybody with the password\n", url)
			<-ctx.Done()
			return nil
		})
	}
	if c.database == "" {
		dsn, stop, err := throwaway.Postgres(install)
		if err != nil {
			return err
		}
		defer stop()
		c.database = dsn
	}
	dsn, schema, drop, err := throwaway.Schema(ctx, c.database, "dltbatch_service")
	if err != nil {
		return err
	}
	c.database, c.schema, c.password, c.listen = dsn, schema, "secret", "127.0.0.1:0"
	err = serve(ctx, c, func(ctx context.Context, url string) error { return prove(ctx, out, url, simulated) })
	return errors.Join(err, drop(context.WithoutCancel(ctx)))
}
