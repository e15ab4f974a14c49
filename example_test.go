package dltbatch_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// serve is the README's first snippet.
func serve(ctx context.Context) error {
	db, err := sqliteopen.Open("queue.db") // sets WAL, busy timeout, FULL; or bring your own *sql.DB
	if err != nil {
		return err
	}
	defer db.Close()
	st, err := sqlite.New(db, nil) // checks the settings that matter, touches nothing
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil { // explicit; sqlite.Migrations() has the SQL for other tools
		return err
	}
	ledger, err := sawtooth.New("http://localhost:8008", nil)
	if err != nil {
		return err
	}
	runner, err := dltbatch.New(st, ledger, nil) // starts nothing; nil options are good ones
	if err != nil {
		return err
	}
	return runner.Run(ctx) // blocks; drains when ctx is done; nil on a clean stop
}

// send is the README's second snippet.
func send(ctx context.Context, runner *dltbatch.Runner, key sawtooth.Signer, address string, payload []byte) error {
	b, err := sawtooth.Build(key, "shipments", sawtooth.Transaction{
		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	if err != nil {
		return err
	}
	if err := runner.Add(ctx, b); err != nil { // checks locally what the node would refuse, stores, wakes
		return err
	}
	rec, err := runner.Await(ctx, b.Key()) // from any process; Invalid and Rejected are records, not errors
	if err != nil {
		return err
	}
	fmt.Println(rec.State)
	return nil
}

// together is the README's third snippet.
func together(ctx context.Context, tx *sql.Tx, st *sqlite.Store, runner *dltbatch.Runner, b batch.Batch) error {
	if err := runner.AddTx(ctx, st.Tx(tx), b); err != nil { // checks as Add does
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	runner.Wake(b.Service) // tells the processes that deliver; without it their next scan finds the batch
	return nil
}

// cluster is the README's fourth snippet.
func cluster(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn) // or sql.Open with lib/pq or pgx, and postgres.New(db, ...)
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := native.New(pool, &postgres.Options{Schema: "dltbatch"}) // or a prefix in a schema of your own
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil { // several processes at once may
		return err
	}
	return nil
}

// scabbard is the README's fifth snippet.
func scabbard(key sawtooth.Signer, st *postgres.Store) (*splinter.Client, error) {
	ledger, err := splinter.New("http://localhost:8085", &splinter.Options{
		Token: splinter.CylinderToken(key), Journal: st,
	})
	return ledger, err
}

// pipelined is the README's sixth snippet.
func pipelined(ctx context.Context, st store.Store) error {
	ledger, err := sawtooth.New("http://localhost:8008", &sawtooth.Options{SingleValidator: true})
	if err != nil {
		return err
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(32)})
	if err != nil {
		return err
	}
	defer ledger.CloseIdleConnections()
	return runner.Run(ctx)
}

// startNode is the README's snippet about tests.
func startNode(t *testing.T) (*sawtooth.Client, error) {
	node := sawtoothtest.Start(t, nil)
	ledger, err := sawtooth.New(node.URL(), nil)
	return ledger, err
}

// atOnce is the README's seventh snippet.
func atOnce(st store.Store, ledger dlt.Ledger) (*dltbatch.Runner, error) {
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Strategy: queuer.Parallel(0)})
	return runner, err
}

// A batch goes through the memory store to a simulated node.
func Example() {
	node, err := sawtoothtest.Listen(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ledger, err := sawtooth.New(node.URL(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.CloseIdleConnections()
	runner, err := dltbatch.New(memory.New(), ledger, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { done <- runner.Run(running) }()
	payload, address := sawtoothtest.Set("pallets", 12)
	if err := send(ctx, runner, key, address, payload); err != nil {
		fmt.Println(err)
	}
	stop()
	fmt.Println(<-done)
	// Output:
	// committed
	// <nil>
}

// The application's own row and the batch are in one transaction: both are stored, or neither.
func ExampleRunner_AddTx() {
	ctx := context.Background()
	db, err := sqliteopen.Open(sqliteopen.Memory) // a file, or PostgreSQL, outside of an example
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	st, err := sqlite.New(db, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := st.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE pallets (id TEXT PRIMARY KEY)`); err != nil {
		fmt.Println(err)
		return
	}
	runner, err := dltbatch.New(st, ledgermem.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []batch.ID{"p1", "p1"} { // the second time the row exists, and the batch must not be added
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		if _, err = tx.ExecContext(ctx, `INSERT INTO pallets VALUES (?)`, id); err == nil {
			err = together(ctx, tx, st, runner, batch.Batch{Service: "pallets", ID: id, Payload: []byte("stored")})
		}
		if err != nil {
			fmt.Println("nothing is stored:", errors.Join(err, tx.Rollback()))
			continue
		}
		rec, err := runner.Get(ctx, batch.Key{Service: "pallets", ID: id})
		fmt.Println(rec.Key, rec.State, err)
	}
	// Output:
	// pallets/p1 queued <nil>
	// nothing is stored: UNIQUE constraint failed: pallets.id
}

func transferred(id batch.ID, from, to string) batch.Batch {
	return batch.Batch{
		ID: id, Service: "bank", Payload: []byte("transfer " + from + " " + to),
		Footprint: batch.Footprint{
			Reads:  []string{"rates/"}, // any of them
			Writes: []string{"account/" + from + "/", "account/" + to + "/"},
		},
	}
}

// On a ledger of your own you set the footprint of a batch: two batches that write the same
// account leave one after the other, and all others leave together.
func Example_footprint() {
	first := transferred("1", "ann", "bob").Footprint
	for _, b := range []batch.Batch{transferred("2", "carl", "dora"), transferred("3", "bob", "carl")} {
		fmt.Println(b.ID, "waits for 1:", b.Footprint.Conflicts(first))
	}
	// Output:
	// 2 waits for 1: false
	// 3 waits for 1: true
}

// Each Go snippet of the README and of docs/ equals code that is compiled here.
func TestReadmeSnippets(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	ledgers, err := filepath.Glob("docs/ledgers/*.md")
	require.NoError(t, err)
	var text []byte
	for _, page := range slices.Concat([]string{"README.md"}, pages, ledgers) {
		read, err := os.ReadFile(page)
		require.NoError(t, err)
		text = append(text, read...)
	}
	var code []byte
	for _, file := range []string{"example_test.go", "example_evm_test.go", "batch/autobatch/page_test.go", "example_operate_test.go", "example_shards_test.go", "example_store_test.go", "operator/example_test.go", "console/example_test.go", "examples/toystore/store_test.go", "store/example_test.go", "internal/integration/layers_test.go", "monitor/traits_test.go", "dlt/evm/internal/kms/aws.go", "dlt/evm/internal/kms/google.go", "dlt/evm/internal/kms/azure.go", "dlt/evm/internal/kms/pkcs11.go"} {
		read, err := os.ReadFile(file)
		require.NoError(t, err)
		code = append(code, read...)
	}
	flat := func(s string) string {
		var lines []string
		for line := range strings.Lines(s) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return strings.Join(lines, "\n")
	}
	blocks := strings.Split(string(text), "```go\n")[1:]
	require.GreaterOrEqual(t, len(blocks), 12)
	for _, b := range blocks {
		snippet, _, _ := strings.Cut(b, "```")
		if !strings.Contains(flat(string(code)), strings.TrimSpace(flat(snippet))) {
			t.Errorf("no example has this snippet:\n%s", snippet)
		}
	}
}

// migrated returns a new database in a file, with its tables.
func migrated(t *testing.T, path string) (*sql.DB, *sqlite.Store) {
	t.Helper()
	db, err := sqliteopen.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	return db, st
}

// The snippets that no Example runs are run here.
func TestSnippetsRun(t *testing.T) {
	tier.Plain(t)
	t.Chdir(t.TempDir())
	migrated(t, "queue.db") // the file exists before the snippet runs, so a slow disk does not matter
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.NoError(t, serve(ctx), "nobody listens at the address, and nothing has to be sent")
	require.NoError(t, pipelined(ctx, memory.New()))

	ledger, err := startNode(t)
	require.NoError(t, err)
	defer ledger.CloseIdleConnections()
	db, st := migrated(t, filepath.Join(t.TempDir(), "queue.db"))
	runner, err := dltbatch.New(st, ledger, nil)
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	b, err := sawtooth.Build(key, "s", sawtooth.Transaction{FamilyName: "intkey", FamilyVersion: "1.0", Nonce: "1", Payload: []byte("x")})
	require.NoError(t, err)
	require.NoError(t, together(t.Context(), tx, st, runner, b))
	rec, err := runner.Get(t.Context(), b.Key())
	require.NoError(t, err)
	require.Equal(t, batch.Queued, rec.State)

	require.Error(t, cluster(t.Context(), "postgres://127.0.0.1:1/none?sslmode=disable&connect_timeout=1"), "nobody listens there; examples/cluster has a server")
	node, err := scabbard(key, nil)
	require.NoError(t, err)
	node.CloseIdleConnections()

	chain, err := startChain(t)
	require.NoError(t, err)
	chain.CloseIdleConnections()

	_, err = atOnce(st, ledger)
	require.NoError(t, err)
}
