// Outbox shows how a service changes its own tables and sends a batch in one transaction, so that
// both happen or neither: read handler.go. It consists of two processes, as most services do: this
// one serves HTTP and adds batches, and a worker, which it starts, delivers them. The program
// sends orders to its own HTTP server. Some fail on purpose and some are sent twice. At the end it
// counts the outcomes, and shows how soon the worker sent what this process had added. It starts a
// throwaway server of the PostgreSQL that is installed on this machine.
//
//	go run ./examples/outbox
//	go run ./examples/outbox -install           (installs PostgreSQL if it is missing)
//	go run ./examples/outbox -dsn postgres://user:password@host/database
//	go run ./examples/outbox -dsn ... -listen 127.0.0.1:8080 -key key.priv
//
// With -dsn it uses a schema of its own, which is dropped at the end. With -listen it serves until
// Ctrl-C and keeps its tables, in the schema "outbox"; -url names a real node, such as
// http://localhost:8008:
//
//	curl -i -X POST http://127.0.0.1:8080/orders -H 'Idempotency-Key: my-1' \
//	  -d '{"customer":"ann","item":"apple","quantity":2}'
//	curl http://127.0.0.1:8080/orders/my-1
//
// examples/metrics is an outbox with metrics and traces, too.
package main

import (
	"context"
	"crypto/rand"
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

	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/examples/internal/throwaway"
)

type config struct {
	dsn, listen, url, keyFile string
	orders                    int
	mayInstall                bool // install PostgreSQL if it is missing
	keepsTables               bool // keep the tables: set with -dsn and -listen
}

// usageText is the text of -h before the flags.
const usageText = `Outbox shows an HTTP handler that changes its own table and adds a batch in one transaction.
Another process, which it starts, delivers. The program sends orders to its own server, counts the
outcomes, and shows how soon the other process sent what this one had added.

usage: go run ./examples/outbox [flags]
`

func main() {
	if len(os.Args) == 2 && os.Args[1] == demo.WorkerCommand {
		if err := runWorker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var c config
	flag.StringVar(&c.dsn, "dsn", "", "a PostgreSQL of your own, instead of a throwaway one")
	flag.StringVar(&c.listen, "listen", "", "serve at this address until Ctrl-C, instead of the demonstration")
	flag.StringVar(&c.url, "url", "", "with -listen: a Sawtooth node, instead of the simulated one")
	flag.StringVar(&c.keyFile, "key", "", "a file with the key to sign with, as sawtooth keygen writes it (default: a new one)")
	flag.IntVar(&c.orders, "orders", 200, "orders that the demonstration sends")
	flag.BoolVar(&c.mayInstall, "install", false, "bring PostgreSQL into your cache, from npm, if it is missing")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := run(ctx, c, os.Stdout)
	switch {
	case c.listen != "" && ctx.Err() != nil && err == nil: // the normal end of a server
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
		c.keepsTables = c.dsn != ""
		return startAll(ctx, c, out, func(ctx context.Context, _ *shop, _ *sawtoothtest.Node, _ string) error {
			<-ctx.Done()
			return nil
		})
	case c.url != "":
		return errors.New("-url wants -listen: the demonstration reads the journal of a simulated node")
	}
	c.listen = "127.0.0.1:0"
	return startAll(ctx, c, out, func(ctx context.Context, s *shop, node *sawtoothtest.Node, url string) error {
		return demonstrate(ctx, out, s, node, url, c.orders)
	})
}

// startAll starts all parts, and ends them when do returns. node is nil if a real node is used.
func startAll(ctx context.Context, c config, out io.Writer, do func(ctx context.Context, s *shop, node *sawtoothtest.Node, url string) error) (err error) {
	dsn, schema, done, err := prepareSchema(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	j := job{DSN: dsn, Schema: schema, URL: c.url}
	var node *sawtoothtest.Node
	if j.URL == "" {
		if node, err = sawtoothtest.Listen(&sawtoothtest.Options{BlockInterval: 100 * time.Millisecond}); err != nil {
			return err
		}
		defer node.Close()
		j.URL, j.Grace = node.URL(), 2*time.Second // keep the default, 60 s, for real nodes
	}
	s, closed, err := j.open()
	if err != nil {
		return err
	}
	defer closed()
	if err := s.store.Migrate(ctx); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, createTables); err != nil {
		return err
	}
	if s.key, err = newSigner(c.keyFile); err != nil {
		return err
	}

	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "process %d serves POST %s/orders and adds\n", os.Getpid(), url)
	ready := make(chan struct{})
	worker := &demo.Process{Job: j, HandleLine: func(line string) {
		fmt.Fprintln(out, line)
		close(ready) // the worker prints one line
	}}
	return s.serve(ctx, listener, worker, func(ctx context.Context) error {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		return do(ctx, s, node, url)
	})
}

// serve runs the HTTP server and the worker until do returns.
func (s *shop) serve(ctx context.Context, listener net.Listener, worker *demo.Process, do func(ctx context.Context) error) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	gone, err := worker.Start()
	if err != nil {
		return errors.Join(err, server.Close(), ignoreClosed(<-served))
	}
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	did := make(chan error, 1)
	go func() { did <- do(doing) }()
	select {
	case err = <-did:
	case err = <-served: // before do returned
		cancel()
		err = errors.Join(err, <-did)
		served <- nil
	case err = <-gone: // before do returned
		cancel()
		err = errors.Join(err, errors.New("the worker has ended"), <-did)
	}
	// The server first takes no new orders; then the worker finishes its work.
	bound, cancelBound := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancelBound()
	return errors.Join(err, server.Shutdown(bound), worker.Stop(), ignoreClosed(<-served))
}

// ignoreClosed drops http.ErrServerClosed, with which a server ends that was shut down.
func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// prepareSchema returns the data source name and the schema of the tables. The application's
// tables and the library's are in one database, because a transaction cannot span two.
func prepareSchema(ctx context.Context, c config) (dsn, schema string, done func() error, err error) {
	if c.keepsTables {
		dsn, err = throwaway.WithSearchPath(c.dsn, keptSchema)
		return dsn, keptSchema, func() error { return nil }, err
	}
	stop := func() {}
	if c.dsn == "" {
		if c.dsn, stop, err = throwaway.Postgres(c.mayInstall); err != nil {
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
		if err := drop(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil { // after Ctrl-C a throwaway server may be gone
			return err
		}
		return nil
	}, nil
}

// keptSchema is the schema for tables that are kept.
const keptSchema = "outbox"

func newSigner(path string) (sawtooth.Signer, error) {
	if path == "" {
		return sawtooth.GeneratePrivateKey()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return sawtooth.ParsePrivateKey(strings.TrimSpace(string(text)))
}

// newKey returns an idempotency key for one order.
func newKey() string { return "order-" + rand.Text()[:12] }
