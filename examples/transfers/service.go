package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// service is the application's part, on one store: an Engine, which makes batches of orders, and a
// Runner, which delivers them.
type service struct {
	engine *autobatch.Engine
	runner *dltbatch.Runner
	ledger *canton.Client
}

// commandsOfOrder is the only function that an application has to write: it turns an order into
// commands.
func commandsOfOrder(_ context.Context, o order.Order) (canton.OrderCommands, error) {
	var t cantontest.Transfer
	if err := json.Unmarshal(o.Payload, &t); err != nil {
		return canton.OrderCommands{}, &batch.InputError{Field: "Order.Payload", Want: "a transfer"}
	}
	return canton.OrderCommands{Commands: []json.RawMessage{t.Command()}}, nil
}

// newService opens the service, and starts nothing: a process that only adds and awaits need not
// call run.
func newService(st demo.Store, url string) (_ *service, err error) {
	s := &service{}
	// Keep the defaults for real participants: these values are for one that is several times
	// faster.
	if s.ledger, err = canton.New(url, &canton.Options{
		UserID: "transfers", LateArrival: time.Second, Grace: time.Second, IdleWait: 50 * time.Millisecond,
		// DecidedWithin has no default. Without it a batch that is refused on submission, after an
		// earlier attempt was lost, needs a person's decision, because nothing proves the outcome
		// of that attempt.
		DecidedWithin: 2 * time.Second,
	}); err != nil {
		return nil, err
	}
	builder, err := canton.NewOrderBuilder(commandsOfOrder, nil)
	if err != nil {
		return nil, err
	}
	if s.engine, err = autobatch.New(st, builder, &autobatch.Options{
		BatchInterval: 100 * time.Millisecond, MonitorInterval: 250 * time.Millisecond,
		Check: s.ledger.Check, // checks a new batch before it is stored
		Wake:  func(party batch.ServiceID) { s.runner.Wake(party) },
	}); err != nil {
		return nil, err
	}
	s.runner, err = dltbatch.New(st, s.ledger, &dltbatch.Options{
		// The claim of a killed worker expires after three seconds; the default is sixty.
		RequestTimeout: 2 * time.Second, ClaimTTL: 3 * time.Second, Drain: 5 * time.Second,
		FirstPoll: 50 * time.Millisecond, PollInterval: 500 * time.Millisecond, ScanInterval: 250 * time.Millisecond,
		Observer: s.engine, // so that the engine learns of a batch's outcome at once
	})
	return s, err
}

// run runs the engine and the Runner until ctx is done.
func (s *service) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var both sync.WaitGroup
	var errs [2]error
	for i, run := range [...]func(context.Context) error{s.runner.Run, s.engine.Run} {
		both.Go(func() {
			defer stop() // neither is useful without the other
			errs[i] = run(ctx)
		})
	}
	both.Wait()
	return errors.Join(errs[:]...)
}
