// Cluster shows several instances on one PostgreSQL. Worker processes share the batches of a
// hundred lanes, and are killed with kill -9 meanwhile and started again. The simulated Sawtooth
// node's journal proves that every batch was committed exactly once and in the order of its lane.
// The program starts a throwaway server of the PostgreSQL that is installed on this machine.
//
//	go run ./examples/cluster
//	go run ./examples/cluster -install              (installs PostgreSQL if it is missing)
//	go run ./examples/cluster -workers 5 -kills 12
//	go run ./examples/cluster -dsn postgres://user:password@host/database
//
// With -dsn it uses a schema of its own, which is dropped at the end. Its exit status is not 0 if
// the proof fails.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/examples/internal/throwaway"
	"github.com/dltbatch/dltbatch/store/postgres"
)

type config struct {
	dsn                            string
	batches, lanes, workers, kills int
	mayInstall                     bool // install PostgreSQL if it is missing
}

// usageText is the text of -h before the flags.
const usageText = `Cluster shows worker processes that share one PostgreSQL, are killed with kill -9 and started
again. A simulated Sawtooth node's journal proves that every batch was committed exactly once
and in the order of its lane.

usage: go run ./examples/cluster [flags]
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
	flag.IntVar(&c.batches, "batches", 4000, "batches")
	flag.IntVar(&c.lanes, "lanes", 100, "lanes: services, each with an order of its own")
	flag.IntVar(&c.workers, "workers", 3, "worker processes")
	flag.IntVar(&c.kills, "kills", 6, "how many times a worker is killed with kill -9")
	flag.BoolVar(&c.mayInstall, "install", false, "bring PostgreSQL into your cache, from npm, if it is missing")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("cluster", func(ctx context.Context, out io.Writer, live bool) error { return run(ctx, c, out, live) })
}

// All times are scaled down by the same factor, so that what happens to a cluster in minutes takes
// seconds; only their order matters.
const (
	blockInterval = 200 * time.Millisecond
	cacheTime     = 2 * time.Second       // how long the node ignores known batches
	latency       = 60 * time.Millisecond // longest time of a request
	addInterval   = 100 * time.Millisecond
	addSteps      = 100 // adding therefore takes ten seconds, and less with few batches
	checkInterval = 50 * time.Millisecond
	restartAfter  = 1500 * time.Millisecond
)

func run(ctx context.Context, c config, out io.Writer, live bool) (err error) {
	if c.batches < 1 || c.lanes < 1 || c.workers < 1 || c.kills < 0 {
		return errors.New("-batches, -lanes and -workers want at least 1, -kills at least 0")
	}
	where := "yours"
	if c.dsn == "" {
		dsn, stop, err := throwaway.Postgres(c.mayInstall)
		if err != nil {
			return err
		}
		defer stop()
		c.dsn, where = dsn, "a throwaway server at "+dsn
	}
	_, schema, drop, err := throwaway.Schema(ctx, c.dsn, "dltbatch_cluster")
	if err != nil {
		return err
	}
	defer func() {
		if where == "yours" { // a throwaway server is removed soon
			err = errors.Join(err, drop(context.WithoutCancel(ctx)))
		}
	}()
	// The node runs in this process, so that its journal can be read. Workers reach it over a
	// socket, as they would any other node.
	node, err := sawtoothtest.Listen(&sawtoothtest.Options{
		BlockInterval: blockInterval, CacheTime: cacheTime,
		Faults: &sawtoothtest.Faults{Latency: 1, MaxLatency: latency}, // so that some kills interrupt a request
	})
	if err != nil {
		return err
	}
	defer node.Close()
	fmt.Fprintf(out, "PostgreSQL  %s\n", where)
	fmt.Fprintf(out, "ledger      a simulated Sawtooth node at %s, a block every %s, requests take up to %s\n", node.URL(), blockInterval, latency)
	fmt.Fprintf(out, "workers     %d processes on one database; kill -9 strikes %d times\n", c.workers, c.kills)
	fmt.Fprintf(out, "work        %d signed batches of %d lanes, added while the workers run\n\n", c.batches, c.lanes)

	j := job{DSN: c.dsn, Schema: schema, URL: node.URL()}
	runner, done, err := j.open()
	if err != nil {
		return err
	}
	defer done()
	s := &cluster{config: c, job: j, node: node, screen: &demo.StatusLine{Out: out, IsTerminal: live, Interval: time.Second}}
	return s.run(ctx, runner)
}

// open returns what all processes have in common: a Runner over the database and the node.
func (j job) open() (runner *dltbatch.Runner, done func(), err error) {
	db, err := sql.Open("postgres", j.DSN)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	st, err := postgres.New(db, &postgres.Options{Schema: j.Schema})
	if err == nil {
		err = st.Migrate(context.Background()) // any number of processes may do this at the same time
	}
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	// Keep the defaults for real nodes: these values are for a node that makes a block every 200
	// ms.
	ledger, err := sawtooth.New(j.URL, &sawtooth.Options{Grace: time.Second, ResendQuiet: cacheTime + time.Second, Settle: time.Second})
	if err == nil {
		runner, err = dltbatch.New(st, ledger, &dltbatch.Options{
			// The claim of a killed worker expires after two seconds; the default is sixty.
			RequestTimeout: time.Second, ClaimTTL: 2 * time.Second,
			FirstPoll: 50 * time.Millisecond, PollInterval: 200 * time.Millisecond, ScanInterval: 250 * time.Millisecond,
			Retry: dltbatch.RetryPolicy{Delay: 250 * time.Millisecond}, Drain: 3 * time.Second, Observer: j.observer,
		})
	}
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return runner, func() { ledger.CloseIdleConnections(); db.Close() }, nil
}
