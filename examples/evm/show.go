package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

const (
	stepEvery   = 100 * time.Millisecond
	workerBack  = time.Second            // after it was killed
	nodeBack    = 500 * time.Millisecond // after it was killed
	patience    = time.Minute            // far more than needed
	nodeRetries = 20
)

// show plays the application, which signs payments, adds them and awaits their outcomes. It also
// causes the faults.
type show struct {
	c       config
	node    node
	chain   *chain
	service *service
	worker  *demo.Process
	books   *books
	screen  *demo.Line

	begun    time.Time
	added    int // number of invoices
	paid     int // number of invoices with a committed payment
	records  map[batch.ID]batch.Record
	outcomes chan outcome
	awaiting sync.WaitGroup
	ended    <-chan error     // of the worker; nil while none runs
	back     <-chan time.Time // when the next worker starts
	strikes  []strike         // faults still to come
}

var errEnded = errors.New("the process that sends has ended by itself")

// outcome is the end of a payment.
type outcome struct {
	rec batch.Record
	err error
}

// strike is a fault that begins once a certain part of the invoices was added. Its function
// reports whether the fault happened; if not, it is called again a little later.
type strike struct {
	at float64
	do func(s *show, ctx context.Context) (bool, error)
}

var story = []strike{
	{.10, (*show).foreignWallet},
	{.20, (*show).leap},
	{.25, (*show).reorg},
	{.40, (*show).killNode},
	{.50, (*show).leap},
	{.60, (*show).killWorker},
	{.75, (*show).foreignWallet},
	{.90, (*show).reorg},
}

// run returns once every invoice is paid.
func (s *show) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.over+patience)
	defer func() { cancel(); s.awaiting.Wait() }()
	s.begun, s.records, s.outcomes, s.strikes = time.Now(), map[batch.ID]batch.Record{}, make(chan outcome), story
	defer func() {
		if e := s.worker.Stop(); err == nil {
			err = e
		}
	}()
	if err := s.start(); err != nil {
		return err
	}
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	for s.paid < s.c.invoices || len(s.strikes) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d invoices are paid: %w", s.paid, s.c.invoices, context.Cause(ctx))
		case err := <-s.ended:
			return errors.Join(errEnded, err)
		case o := <-s.outcomes:
			err = s.decided(ctx, o)
		case <-s.back:
			s.back = nil
			err = s.start()
		case <-tick.C:
			err = s.step(ctx)
		}
		if err != nil {
			return err
		}
	}
	s.screen.End(s.now().line())
	return nil
}

func (s *show) say(format string, args ...any) {
	s.screen.Say(time.Since(s.begun), format, args...)
}

func (s *show) start() (err error) {
	if s.ended, err = s.worker.Start(); err == nil {
		s.say("the process that sends has started: process %d", s.worker.PID())
	}
	return err
}

// step adds the next payments, begins the next fault if it is due, and shows the state.
func (s *show) step(ctx context.Context) error {
	due := s.c.invoices
	if s.c.over > 0 {
		due = min(due, int(float64(s.c.invoices)*time.Since(s.begun).Seconds()/s.c.over.Seconds()))
	}
	var invoices []int
	for ; s.added < due; s.added++ {
		invoices = append(invoices, s.added+1)
	}
	if err := s.pay(ctx, invoices...); err != nil {
		return err
	}
	if len(s.strikes) > 0 && float64(s.added) >= s.strikes[0].at*float64(s.c.invoices) && s.back == nil {
		done, err := s.strikes[0].do(s, ctx)
		if err != nil {
			return err
		}
		if done || s.added == s.c.invoices && s.paid == s.c.invoices { // no payment is left for a fault
			s.strikes = s.strikes[1:]
		}
	}
	s.screen.Refresh(s.now().line())
	return nil
}

// pay signs and adds payments, and awaits each of them.
func (s *show) pay(ctx context.Context, invoices ...int) error {
	if len(invoices) == 0 {
		return nil
	}
	var all []batch.Batch
	for _, invoice := range invoices {
		p, err := s.books.write(invoice, (invoice-1)%s.c.accounts)
		if err != nil {
			return err
		}
		all = append(all, p.batch)
	}
	if err := s.service.runner.Add(ctx, all...); err != nil {
		return err
	}
	for _, b := range all {
		s.awaiting.Go(func() {
			rec, err := s.service.runner.Await(ctx, b.Key())
			select {
			case s.outcomes <- outcome{rec, err}:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// decided handles the end of a payment. A signed payment whose nonce another transaction took was
// certainly not made; it is signed again with the account's next nonce. For an intent the library
// does this.
func (s *show) decided(ctx context.Context, o outcome) error {
	if o.err != nil {
		return o.err
	}
	s.records[o.rec.ID] = o.rec
	p := s.books.signed[o.rec.ID]
	switch {
	case o.rec.State == batch.Committed:
		s.paid++
		return nil
	case o.rec.State == batch.Rejected && !s.c.intents:
		s.say("invoice %d: nonce %d is used, signed anew with nonce %d", p.invoice, p.nonce, s.books.next[p.account])
		return s.pay(ctx, p.invoice)
	}
	return fmt.Errorf("invoice %d: %s is %s: %w", p.invoice, o.rec.ID, o.rec.State, o.rec.Error)
}

// foreignWallet lets another wallet with the key of an account take its next nonce.
func (s *show) foreignWallet(ctx context.Context) (bool, error) {
	account := (3 + 4*len(s.books.foreign)) % s.c.accounts
	nonce := s.books.next[account]
	if s.c.intents { // only the chain knows the nonce of an intent
		var pending number
		if err := s.chain.call(ctx, &pending, "eth_getTransactionCount", evmtest.Dev(account).Address(), "pending"); err != nil {
			return false, err
		}
		nonce = uint64(pending)
	}
	raw, hash := s.books.take(account, nonce)
	err := s.chain.call(ctx, nil, "eth_sendRawTransaction", raw)
	if s.c.intents && errors.Is(err, errNode) { // a payment took the nonce first
		delete(s.books.foreign, hash)
		return false, nil
	}
	s.say("another wallet with the key of a%d takes its nonce %d: %.10s...", account, nonce, hash)
	return true, err
}

// leap makes the base fee jump above the lower prices. It then falls by an eighth with each block.
func (s *show) leap(ctx context.Context) (bool, error) {
	const gwei = 30
	s.say("the base fee leaps to %d gwei: payments that offer less now offer more", gwei)
	return true, s.chain.call(ctx, nil, "anvil_setNextBlockBaseFeePerGas", number(gwei*1e9))
}

// reorg makes the chain replace its last blocks by empty ones, once there is a transaction in
// them.
func (s *show) reorg(ctx context.Context) (bool, error) {
	head, err := s.chain.head(ctx)
	if err != nil || head < reorgDepth {
		return false, err
	}
	last, err := s.chain.since(ctx, head-reorgDepth+1, head)
	if err != nil || executed(last) == 0 {
		return false, err
	}
	if err := s.chain.call(ctx, nil, "anvil_reorg", reorgDepth, []any{}); err != nil {
		return false, err
	}
	s.say("the chain replaces blocks %d to %d by others: %d transactions in them are undone", last[0].Number, head, executed(last))
	return true, nil
}

// killNode kills the node and starts it again. The node has then lost the blocks since it last
// wrote its state, and all transactions that waited for a block.
func (s *show) killNode(ctx context.Context) (bool, error) {
	head, err := s.chain.head(ctx)
	if err != nil {
		return false, err
	}
	last, err := s.chain.since(ctx, head-min(head, 2*depth), head)
	if err != nil || executed(last[len(last)-min(len(last), reorgDepth):]) == 0 {
		return false, err
	}
	if err := s.node.Kill(); err != nil {
		return false, err
	}
	s.say("kill -9 of the node, at block %d", head)
	select {
	case <-time.After(nodeBack):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if err := s.node.Resume(); err != nil {
		return false, err
	}
	now, err := s.chain.head(ctx)
	for range nodeRetries {
		if err == nil {
			break
		}
		time.Sleep(stepEvery)
		now, err = s.chain.head(ctx)
	}
	if err != nil {
		return false, err
	}
	lost := slices.DeleteFunc(last, func(b block) bool { return b.Number <= now })
	s.say("the node is back at block %d: %d transactions that it had executed are undone", now, executed(lost))
	return true, nil
}

// killWorker kills the process that sends.
func (s *show) killWorker(context.Context) (bool, error) {
	s.say("kill -9 of the process that sends (process %d), with %d payments on their way", s.worker.PID(), s.added-s.paid)
	s.worker.Kill()
	s.ended, s.back = nil, time.After(workerBack)
	return true, nil
}

func (s *show) now() state {
	return state{elapsed: time.Since(s.begun), added: s.added, paid: s.paid, total: s.c.invoices, made: len(s.books.signed)}
}
