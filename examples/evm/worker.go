package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// job is the input of a process.
type job struct {
	DB      string `json:"db"`
	URL     string `json:"url"`
	Chain   uint64 `json:"chain"`
	Genesis string `json:"genesis"`
}

// service is a Runner on the database and the chain.
type service struct {
	runner *dltbatch.Runner
	close  func()
}

// open starts nothing: the process that adds and awaits does not call Run.
func open(ctx context.Context, j job) (*service, error) {
	db, err := sqliteopen.Open(j.DB)
	if err != nil {
		return nil, fmt.Errorf("%w\n(SQLite needs a C compiler)", err)
	}
	fail := func(err error) (*service, error) { return nil, errors.Join(err, db.Close()) }
	st, err := sqlite.New(db, nil)
	if err == nil {
		err = st.Migrate(ctx)
	}
	if err != nil {
		return fail(err)
	}
	// Keep the defaults of times for real chains: these are for blocks of 250 ms.
	ledger, err := evm.New(j.URL, j.Chain, &evm.Options{
		Genesis: j.Genesis, Finality: evm.After(depth), HeadInterval: blockTime / 4, LateArrival: time.Second, Grace: time.Second,
	})
	if err != nil {
		return fail(err)
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{
		Strategy: queuer.Pipelined(16),
		// A dead process's claim expires after three seconds; by default after sixty.
		RequestTimeout: time.Second, ClaimTTL: 3 * time.Second, Drain: 3 * time.Second,
		FirstPoll: blockTime / 2, PollInterval: 2 * blockTime, ScanInterval: blockTime, RetryDelay: blockTime,
	})
	if err != nil {
		return fail(err)
	}
	return &service{runner: runner, close: func() { ledger.CloseIdleConnections(); _ = db.Close() }}, nil
}

// work is a whole worker process: it sends until its standard input ends.
func work(in io.Reader) error {
	return demo.Work(in, func(ctx context.Context, j job) error {
		s, err := open(ctx, j)
		if err != nil {
			return err
		}
		defer s.close()
		return s.runner.Run(ctx)
	})
}
