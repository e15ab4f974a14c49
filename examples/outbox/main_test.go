package main

import (
	"context"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/examples/internal/demotest"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == demo.WorkerCommand {
		main()
		return
	}
	os.Exit(pgtest.Main(m))
}

func open(t *testing.T, dsn string) *sql.DB {
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func requireProof(t *testing.T, out string) {
	require.Regexp(t, `\n +16  created\n`, out)
	require.Regexp(t, `\n +8  sent again with the same Idempotency-Key`, out)
	require.Regexp(t, `\n +2  another order with a key that was used: refused\n`, out)
	require.Regexp(t, `\n +4  out of stock`, out)
	require.Regexp(t, `GET /orders/order-\S+\n\{.*"state":"committed"`, out)
	require.Regexp(t, `\n10 orders one by one, .*\n +\d+ ms in the middle, .* until the other process sent .*\n +\d+ ms in the middle, .* until Await`, out)
	require.Regexp(t, `\n +26  rows in the application's table\n +26  batches committed by the node, says its journal; 26 of them`, out)
	require.Contains(t, out, "\nPROVED in ")
}

// The program ends with its proof and leaves nothing behind.
func TestProgram(t *testing.T) {
	tier.Server(t)
	p := demotest.NewBuilt(t, "-orders", "20", "-install")
	require.NoError(t, p.Run(), &p.Out)
	requireProof(t, p.Out.String())
	p.RequireClean(t)
}

// The demonstration leaves nothing behind in the database that -dsn names.
func TestDSN(t *testing.T) {
	tier.Server(t)
	dsn := pgtest.Start(t)
	var out demotest.Output
	require.NoError(t, run(t.Context(), config{dsn: dsn, orders: 20}, &out))
	requireProof(t, out.String())
	var left int
	require.NoError(t, open(t, dsn).QueryRow(`SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dltbatch_outbox_%'`).Scan(&left))
	require.Zero(t, left)
}

// The demonstration returns an error if one of the facts that it shows is wrong.
func TestProofFails(t *testing.T) {
	tier.Server(t)
	for name, c := range map[string]struct {
		tamper func(ctx context.Context, s *shop, orders []demoOrder) error
		wrong  string
	}{
		"as it is": {func(context.Context, *shop, []demoOrder) error { return nil }, ""},
		"a row without a batch": {func(ctx context.Context, s *shop, orders []demoOrder) error {
			_, err := s.db.ExecContext(ctx, `INSERT INTO orders VALUES ('x', 'x', 'apple', 1, 'x')`)
			return err
		}, "3 rows and 2 batches"},
		"a batch without a row": {func(ctx context.Context, s *shop, orders []demoOrder) error {
			_, err := s.db.ExecContext(ctx, `DELETE FROM orders WHERE id = $1`, orders[0].ID)
			return err
		}, "0 rows, stored as"},
		"a trace of what was rolled back": {func(ctx context.Context, s *shop, orders []demoOrder) error {
			b, err := s.sign(orders[2].order)
			if err != nil {
				return err
			}
			return s.runner.Add(ctx, b)
		}, "was rolled back and left a trace"},
	} {
		t.Run(name, func(t *testing.T) {
			do := func(ctx context.Context, s *shop, node *sawtoothtest.Node, url string) error {
				orders := demoOrders(10)
				orders = []demoOrder{orders[0], orders[9], orders[3]}
				for _, o := range orders {
					if err := o.send(ctx, url); err != nil {
						return err
					}
				}
				if err := c.tamper(ctx, s, orders); err != nil {
					return err
				}
				if err := s.runner.Idle(ctx); err != nil {
					return err
				}
				return s.compare(ctx, t.Output(), node, orders, time.Second)
			}
			err := startAll(t.Context(), config{dsn: pgtest.Start(t), listen: "127.0.0.1:0"}, t.Output(), do)
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "THE PROOF FAILS")
			require.ErrorContains(t, err, c.wrong)
		})
	}
}

var (
	servePattern = regexp.MustCompile(`serves POST (http://\S+)/orders`)
	probePattern = regexp.MustCompile(`GET (http://\S+)/readyz`)
)

// startServing runs the program as with -listen, until the test calls stop.
func startServing(t *testing.T, c config) (url, worker string, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var out demotest.Output
	ended := make(chan error, 1)
	c.listen = "127.0.0.1:0"
	go func() { ended <- run(ctx, c, &out) }()
	require.Eventually(t, func() bool { return probePattern.MatchString(out.String()) }, time.Minute, 10*time.Millisecond)
	return servePattern.FindStringSubmatch(out.String())[1], probePattern.FindStringSubmatch(out.String())[1], func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// With -listen the program serves until it is stopped, and the next start continues with the same
// tables.
func TestListen(t *testing.T) {
	tier.Server(t)
	dsn := pgtest.Start(t)
	t.Cleanup(func() {
		_, err := open(t, dsn).Exec(`DROP SCHEMA ` + keptSchema + ` CASCADE`)
		require.NoError(t, err)
	})
	key := filepath.Join(t.TempDir(), "key.priv")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("1f", 32)+"\n"), 0o600))
	c := config{dsn: dsn, keyFile: key}
	o := order{ID: "my-1", Customer: "ann", Item: "apple", Quantity: 2}
	send := func(url string, o order) int {
		status, err := postOrder(t.Context(), url, o)
		require.NoError(t, err)
		return status
	}
	get := func(url string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/orders/my-1", http.NoBody)
		require.NoError(t, err)
		_, body, err := doRequest(req)
		require.NoError(t, err)
		return body
	}

	url, worker, stop := startServing(t, c)
	require.Equal(t, http.StatusNotFound, func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/orders/nobody", http.NoBody)
		require.NoError(t, err)
		status, _, err := doRequest(req)
		require.NoError(t, err)
		return status
	}())
	checkProbes(t, worker)
	require.Equal(t, http.StatusBadRequest, send(url, order{Customer: "ann", Item: "apple", Quantity: 2}), "no key")
	require.Equal(t, http.StatusBadRequest, send(url, order{ID: "my-2", Customer: "ann", Item: "apple"}), "no quantity")
	require.Equal(t, http.StatusConflict, send(url, order{ID: "my-3", Customer: "ann", Item: "quince", Quantity: 4}))
	require.Equal(t, http.StatusCreated, send(url, o))
	require.Eventually(t, func() bool { return strings.Contains(get(url), `"state":"`+batch.Committed.String()+`"`) },
		20*time.Second, 20*time.Millisecond)
	stop()

	url, _, stop = startServing(t, c)
	defer stop()
	require.Equal(t, http.StatusOK, send(url, o), "the same order, and the same batch")
	other := o
	other.Quantity++
	require.Equal(t, http.StatusConflict, send(url, other))
	require.Equal(t, http.StatusCreated, send(url, order{ID: "my-3", Customer: "ann", Item: "quince", Quantity: 3}), "nothing was sold before")
	require.JSONEq(t, `{"id":"my-1","customer":"ann","item":"apple","quantity":2,"state":"committed"}`, get(url))
}

// checkProbes sends the requests that the configuration for Kubernetes has.
func checkProbes(t *testing.T, worker string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	paths := regexp.MustCompile(`httpGet: {path: (/[a-z]+),`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, paths, 2)
	for _, p := range paths {
		require.Eventually(t, func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, worker+p[1], http.NoBody)
			require.NoError(t, err)
			status, body, err := doRequest(req)
			require.NoError(t, err)
			return status == http.StatusOK && strings.HasPrefix(body, `{"ok":true,"health":{"running":true,`)
		}, time.Minute, 10*time.Millisecond, p[1])
	}
}

func TestWrongFlags(t *testing.T) {
	tier.Server(t)
	require.Error(t, run(t.Context(), config{orders: 3}, t.Output()))
	require.Error(t, run(t.Context(), config{orders: 30, url: "http://127.0.0.1:1"}, t.Output()))
	require.Error(t, run(t.Context(), config{orders: 30, keyFile: "missing", dsn: pgtest.Start(t)}, t.Output()))
}
