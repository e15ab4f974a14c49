package main

import (
	"context"
	"io"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/queuer"
)

// job is the input of a worker process.
type job struct {
	DB      string `json:"db"`
	URL     string `json:"url"`
	Chain   uint64 `json:"chain"`
	Genesis string `json:"genesis"`
	Intents bool   `json:"intents"`
}

// service is a Runner over the database and the chain.
type service struct {
	runner *dltbatch.Runner
	close  func()
}

// open opens the service and starts nothing, because the process that adds and awaits does not
// call Run.
func open(ctx context.Context, j job) (*service, error) {
	st, _, done, err := demo.Open(ctx, "sqlite", j.DB)
	if err != nil {
		return nil, err
	}
	ledger, err := j.client()
	if err != nil {
		done()
		return nil, err
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{
		Strategy: queuer.Pipelined(maxUnderWay),
		// The claim of a killed process expires after three seconds; the default is sixty.
		RequestTimeout: time.Second, ClaimTTL: 3 * time.Second, Drain: 3 * time.Second,
		FirstPoll: blockTime / 2, PollInterval: 2 * blockTime, ScanInterval: blockTime, Retry: dltbatch.RetryPolicy{Delay: blockTime},
	})
	if err != nil {
		done()
		return nil, err
	}
	return &service{runner: runner, close: func() { ledger.CloseIdleConnections(); done() }}, nil
}

// maxUnderWay is the largest number of payments of an account that are under way.
const maxUnderWay = 16

// client returns the client of the chain. Keep the default times for real chains: these values are
// for blocks of 250 ms.
func (j job) client() (interface {
	dlt.Ledger
	CloseIdleConnections()
}, error) {
	o := evm.Options{
		Genesis: j.Genesis, Finality: evm.After(depth), HeadInterval: blockTime / 4, LateArrival: time.Second, Grace: time.Second,
	}
	if !j.Intents {
		return evm.New(j.URL, j.Chain, &o)
	}
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	if err != nil {
		return nil, err
	}
	return evm.NewSigner(j.URL, j.Chain, signer, &evm.SignerOptions{Options: o})
}

// runWorker is the main function of a worker process: it sends until its standard input ends.
func runWorker(in io.Reader) error {
	return demo.Work(in, func(ctx context.Context, j job) error {
		s, err := open(ctx, j)
		if err != nil {
			return err
		}
		defer s.close()
		return s.runner.Run(ctx)
	})
}
