package autobatch_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// commands returns the ledger's commands for an order.
func commands(_ context.Context, o order.Order) (canton.OrderCommands, error) {
	command, err := json.Marshal(map[string]any{"ExerciseCommand": map[string]any{
		"templateId": "#dltbatch-book:Book:Book", "contractId": "00b00c", "choice": "Transfer",
		"choiceArgument": json.RawMessage(o.Payload),
	}})
	return canton.OrderCommands{Commands: []json.RawMessage{command}}, err
}

// wallet is the first snippet of docs/orders.md.
func wallet(ctx context.Context, url string, st *memory.Store, serve func(context.Context, *autobatch.Engine) error) error {
	ledger, err := canton.New(url, &canton.Options{UserID: "wallet", DecidedWithin: 5 * time.Minute})
	if err != nil {
		return err
	}
	builder, err := canton.NewOrderBuilder(commands, nil) // commands is yours: what an order is on the ledger
	if err != nil {
		return err
	}
	options, err := autobatch.FromEnv(os.Getenv) // AUTO_BATCH_SWITCH=true; or write an autobatch.Options
	if err != nil {
		return err
	}
	var runner *dltbatch.Runner
	options.Wake = func(party batch.ServiceID) { runner.Wake(party) }
	engine, err := autobatch.New(st, builder, &options) // makes batches of orders
	if err != nil {
		return err
	}
	runner, err = dltbatch.New(st, ledger, &dltbatch.Options{ // delivers them
		Observer: engine, PollInterval: options.MonitorInterval, Retry: dltbatch.RetryPolicy{Delay: options.RetryInterval},
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return runner.Run(ctx) })
	group.Go(func() error { return engine.Run(ctx) })
	group.Go(func() error { return serve(ctx, engine) }) // yours: it calls engine.Add and engine.Await
	return group.Wait()
}

// payOne is the second snippet of docs/orders.md.
func payOne(ctx context.Context, engine *autobatch.Engine, party batch.ServiceID, payload []byte) error {
	transfer := order.Order{
		ID: "transfer-4711", Party: party, Payload: payload, // adding it again is harmless
		Deadline: time.Now().Add(time.Minute), // Failed, if it is not part of a batch by then
	}
	if err := engine.Add(ctx, transfer); err != nil { // durable once it is nil
		return err
	}
	rec, err := engine.Await(ctx, transfer.ID) // from any process; Failed and Quarantined are records, not errors
	if err != nil {
		return err
	}
	fmt.Println(rec.State)
	return nil
}

// payTogether is the third snippet of docs/orders.md.
func payTogether(ctx context.Context, st *sqlite.Store, tx *sql.Tx, engine *autobatch.Engine, transfer order.Order) error {
	if err := st.AddOrdersTx(ctx, tx, transfer); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	engine.Wake() // tells the process whose Engine runs; without it the order is found within BatchInterval
	return nil
}

// Orders become batches on a simulated participant.
func Example_orders() {
	os.Setenv(autobatch.EnvSwitch, "true")
	defer os.Unsetenv(autobatch.EnvSwitch)
	participant, err := cantontest.Listen(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer participant.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := errors.New("done")
	err = wallet(ctx, participant.URL(), memory.New(), func(ctx context.Context, engine *autobatch.Engine) error {
		if err := payOne(ctx, engine, "Alice::1220", []byte(`{"to": "Bob::1220", "amount": "5"}`)); err != nil {
			return err
		}
		return done
	})
	fmt.Println(err)
	fmt.Println(participant.Balance("Bob::1220"))
	// Output:
	// confirmed
	// done
	// 1000005
}

// If auto-batching is switched off, as it is by default, Add accepts nothing and no loop runs.
func TestSnippetsSwitchedOff(t *testing.T) {
	t.Setenv(autobatch.EnvSwitch, "")
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, wallet(ctx, "http://127.0.0.1:1", memory.New(), func(ctx context.Context, engine *autobatch.Engine) error {
		defer cancel()
		require.ErrorIs(t, payOne(ctx, engine, "Alice", []byte("x")), autobatch.ErrDisabled)
		return nil
	}))
}

func TestSnippetPayTogether(t *testing.T) {
	db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
	require.NoError(t, err)
	defer db.Close()
	st, err := sqlite.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	builder, err := canton.NewOrderBuilder(commands, nil)
	require.NoError(t, err)
	engine, err := autobatch.New(st, builder, nil)
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	transfer := order.Order{ID: "a", Party: "p", Payload: []byte("x")}
	require.NoError(t, payTogether(t.Context(), st, tx, engine, transfer))
	final, missing, err := st.FinalOrders(t.Context(), []order.ID{"a"})
	require.NoError(t, err)
	require.Empty(t, final)
	require.Empty(t, missing, "it is stored")
}

// The table of variables in docs/orders.md has their defaults.
func TestPageVariables(t *testing.T) {
	page, err := os.ReadFile("../../docs/orders.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 4 && strings.Contains(cells[1], "AUTO_BATCH_") {
			rows[strings.Trim(cells[1], " `")] = strings.Trim(cells[3], " `")
		}
	}
	defaults := map[string]string{
		autobatch.EnvSwitch: "false", autobatch.EnvDBType: string(autobatch.DBMemory), autobatch.EnvMaxSize: "100",
		autobatch.EnvMaxBytes: "1048576", autobatch.EnvFlushAge: "0s", autobatch.EnvMaxAttempts: "5",
		autobatch.EnvBatchInterval: "1s", autobatch.EnvMonitorInterval: "1s",
		autobatch.EnvRetryInterval: "1s", autobatch.EnvRecoveryInterval: "1s",
	}
	require.Equal(t, defaults, rows)
	o, err := autobatch.FromEnv(func(name string) string { return rows[name] })
	require.NoError(t, err, "each can be written so: %v", slices.Sorted(maps.Keys(rows)))
	require.True(t, o.Disabled)
	require.Equal(t, 100, o.MaxSize)
}
