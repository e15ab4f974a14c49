// Outbox shows how a service changes its own tables and sends a batch in one transaction, so
// that both happen or neither: read handler.go. The program sends orders to its own HTTP server.
// Some fail on purpose and some come twice. At the end it counts the outcomes. It starts a
// throwaway server of the PostgreSQL that is installed on this machine.
//
//	go run ./examples/outbox
//	go run ./examples/outbox -install           (installs PostgreSQL if it is missing)
//	go run ./examples/outbox -dsn postgres://user:password@host/database    (in a schema of its own, dropped at the end)
//	go run ./examples/outbox -dsn ... -listen 127.0.0.1:8080 -key key.priv [-url http://localhost:8008]
//
// The last one serves until Ctrl-C and keeps its tables, in the schema "outbox":
//
//	curl -i -X POST http://127.0.0.1:8080/orders -H 'Idempotency-Key: my-1' -d '{"customer":"ann","item":"apple","quantity":2}'
//	curl http://127.0.0.1:8080/orders/my-1
//	curl -i http://127.0.0.1:8080/readyz
//
// examples/metrics is an outbox with metrics and traces, too.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/throwaway"
	"github.com/dltbatch/dltbatch/store/postgres"
)

type config struct {
	dsn, listen, url, key string
	orders                int
	install               bool // PostgreSQL, if it is missing
	kept                  bool // keep the tables: -dsn and -listen
}

// about is what -h prints before the flags.
const about = `Outbox shows an HTTP handler that changes its own table and adds a batch in one transaction.
The program sends orders to its own server and counts the outcomes.

usage: go run ./examples/outbox [flags]
`

func main() {
	var c config
	flag.StringVar(&c.dsn, "dsn", "", "a PostgreSQL of your own, instead of a throwaway one")
	flag.StringVar(&c.listen, "listen", "", "serve at this address until Ctrl-C, instead of the demonstration")
	flag.StringVar(&c.url, "url", "", "with -listen: a Sawtooth node, instead of the simulated one")
	flag.StringVar(&c.key, "key", "", "a file with the key to sign with, as sawtooth keygen writes it (default: a new one)")
	flag.IntVar(&c.orders, "orders", 200, "orders that the demonstration sends")
	flag.BoolVar(&c.install, "install", false, "bring PostgreSQL into your cache, from npm, if it is missing")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), about); flag.PrintDefaults() }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the cleaning up
	err := run(ctx, c, os.Stdout)
	switch {
	case c.listen != "" && ctx.Err() != nil && err == nil: // serving ends like this
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\noutbox: interrupted:", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "\noutbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config, out io.Writer) (err error) {
	switch {
	case c.orders < 10 && c.listen == "":
		return errors.New("-orders wants at least 10")
	case c.listen != "":
		c.kept = c.dsn != ""
		return start(ctx, c, out, func(ctx context.Context, _ *shop, _ *sawtoothtest.Node, _ string) error {
			<-ctx.Done()
			return nil
		})
	case c.url != "":
		return errors.New("-url wants -listen: the demonstration reads the journal of a simulated node")
	}
	c.listen = "127.0.0.1:0"
	return start(ctx, c, out, func(ctx context.Context, s *shop, node *sawtoothtest.Node, url string) error {
		return demonstrate(ctx, out, s, node, url, c.orders)
	})
}

// start starts all parts, and ends them when do returns. node is nil if there is a real one.
func start(ctx context.Context, c config, out io.Writer, do func(ctx context.Context, s *shop, node *sawtoothtest.Node, url string) error) (err error) {
	dsn, schema, done, err := database(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	st, err := postgres.New(db, &postgres.Options{Schema: schema, Prefix: "dltbatch_"})
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return err
	}

	var node *sawtoothtest.Node
	var ledgerOptions sawtooth.Options
	if c.url == "" {
		if node, err = sawtoothtest.Listen(&sawtoothtest.Options{BlockInterval: 100 * time.Millisecond}); err != nil {
			return err
		}
		defer node.Close()
		c.url, ledgerOptions.Grace = node.URL(), 2*time.Second // keep the default, 60 s, for real nodes
	}
	ledger, err := sawtooth.New(c.url, &ledgerOptions)
	if err != nil {
		return err
	}
	defer ledger.CloseIdleConnections()
	runner, err := dltbatch.New(st, ledger, nil)
	if err != nil {
		return err
	}
	key, err := signer(c.key)
	if err != nil {
		return err
	}
	s := &shop{db: db, store: st, runner: runner, key: key}

	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "serving POST %s/orders; the ledger is at %s\n", url, c.url)
	return s.serve(ctx, listener, func(ctx context.Context) error { return do(ctx, s, node, url) })
}

// serve runs the HTTP server and the Runner until do returns. They are in one process here,
// but need not be.
func (s *shop) serve(ctx context.Context, listener net.Listener, do func(ctx context.Context) error) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- s.runner.Run(running) }()
	go func() { ended <- server.Serve(listener) }()
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	did := make(chan error, 1)
	go func() { did <- do(doing) }()
	var err error
	select {
	case err = <-did:
	case err = <-ended: // too early
		cancel()
		err = errors.Join(err, <-did)
		ended <- nil
	}
	// No new orders; then the Runner finishes its work.
	bound, cancelBound := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancelBound()
	err = errors.Join(err, server.Shutdown(bound))
	stop()
	for range 2 {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// database returns the place of the tables. The application's tables and the library's are in
// one database, because a transaction cannot span two.
func database(ctx context.Context, c config) (dsn, schema string, done func() error, err error) {
	if c.kept {
		dsn, err = throwaway.Within(c.dsn, keptSchema)
		return dsn, keptSchema, func() error { return nil }, err
	}
	stop := func() {}
	if c.dsn == "" {
		if c.dsn, stop, err = throwaway.Postgres(c.install); err != nil {
			return "", "", nil, err
		}
	}
	dsn, schema, drop, err := throwaway.Schema(ctx, c.dsn, "dltbatch_outbox")
	if err != nil {
		stop()
		return "", "", nil, err
	}
	return dsn, schema, func() error {
		defer stop()
		if err := drop(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil { // Ctrl-C may have ended a throwaway server
			return err
		}
		return nil
	}, nil
}

// keptSchema is the schema of tables that are kept.
const keptSchema = "outbox"

func signer(path string) (sawtooth.Signer, error) {
	if path == "" {
		return sawtooth.GeneratePrivateKey()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return sawtooth.ParsePrivateKey(strings.TrimSpace(string(text)))
}

// newKey is an idempotency key for one order.
func newKey() string { return "order-" + rand.Text()[:12] }
