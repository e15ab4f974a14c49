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
	stepInterval       = 100 * time.Millisecond
	workerRestartDelay = time.Second            // after it was killed
	nodeRestartDelay   = 500 * time.Millisecond // after it was killed
	timeoutMargin      = time.Minute            // far more than needed
	nodeRetries        = 20
)

// demonstration plays the application, which signs payments, adds them and awaits their outcomes.
// It also causes the faults.
type demonstration struct {
	config  config
	node    node
	chain   *nodeClient
	service *service
	worker  *demo.Process
	books   *applicationBooks
	screen  *demo.StatusLine

	startedAt     time.Time
	addedInvoices int // number of invoices
	paidInvoices  int // number of invoices with a committed payment
	records       map[batch.ID]batch.Record
	outcomes      chan paymentOutcome
	awaiting      sync.WaitGroup
	workerEnded   <-chan error     // of the worker; nil while none runs
	workerRestart <-chan time.Time // when the next worker starts
	troubles      []troubleAt      // faults still to come
}

var errWorkerEnded = errors.New("the process that sends has ended by itself")

// paymentOutcome is how a payment ended.
type paymentOutcome struct {
	rec batch.Record
	err error
}

// troubleAt is a fault that begins once a certain part of the invoices was added. Its function
// reports whether the fault happened; if not, it is called again a little later.
type troubleAt struct {
	shareOfInvoices float64
	cause           func(s *demonstration, ctx context.Context) (bool, error)
}

var plannedTroubles = []troubleAt{
	{.10, (*demonstration).foreignWallet},
	{.20, (*demonstration).raiseBaseFee},
	{.25, (*demonstration).reorg},
	{.40, (*demonstration).killNode},
	{.50, (*demonstration).raiseBaseFee},
	{.60, (*demonstration).killWorker},
	{.75, (*demonstration).foreignWallet},
	{.90, (*demonstration).reorg},
}

// run adds and awaits payments, makes the troubles, and returns once every invoice is paid.
func (s *demonstration) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.addPeriod+timeoutMargin)
	defer func() { cancel(); s.awaiting.Wait() }()
	s.startedAt, s.records, s.outcomes, s.troubles = time.Now(), map[batch.ID]batch.Record{}, make(chan paymentOutcome), plannedTroubles
	defer func() {
		if e := s.worker.Stop(); err == nil {
			err = e
		}
	}()
	if err := s.startWorker(); err != nil {
		return err
	}
	tick := time.NewTicker(stepInterval)
	defer tick.Stop()
	for s.paidInvoices < s.config.invoices || len(s.troubles) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d invoices are paid: %w", s.paidInvoices, s.config.invoices, context.Cause(ctx))
		case err := <-s.workerEnded:
			return errors.Join(errWorkerEnded, err)
		case o := <-s.outcomes:
			err = s.takeOutcome(ctx, o)
		case <-s.workerRestart:
			s.workerRestart = nil
			err = s.startWorker()
		case <-tick.C:
			err = s.step(ctx)
		}
		if err != nil {
			return err
		}
	}
	s.screen.End(s.progress().line())
	return nil
}

func (s *demonstration) printLine(format string, args ...any) {
	s.screen.Say(time.Since(s.startedAt), format, args...)
}

func (s *demonstration) startWorker() (err error) {
	if s.workerEnded, err = s.worker.Start(); err == nil {
		s.printLine("the process that sends has started: process %d", s.worker.PID())
	}
	return err
}

// step adds the next payments, begins the next fault if it is due, and shows the state.
func (s *demonstration) step(ctx context.Context) error {
	due := s.config.invoices
	if s.config.addPeriod > 0 {
		due = min(due, int(float64(s.config.invoices)*time.Since(s.startedAt).Seconds()/s.config.addPeriod.Seconds()))
	}
	var invoices []int
	for ; s.addedInvoices < due; s.addedInvoices++ {
		invoices = append(invoices, s.addedInvoices+1)
	}
	if err := s.pay(ctx, invoices...); err != nil {
		return err
	}
	if len(s.troubles) > 0 && float64(s.addedInvoices) >= s.troubles[0].shareOfInvoices*float64(s.config.invoices) && s.workerRestart == nil {
		done, err := s.troubles[0].cause(s, ctx)
		if err != nil {
			return err
		}
		if done || s.addedInvoices == s.config.invoices && s.paidInvoices == s.config.invoices { // no payment is left for a fault
			s.troubles = s.troubles[1:]
		}
	}
	s.screen.Refresh(s.progress().line())
	return nil
}

// pay signs and adds payments, and awaits each of them.
func (s *demonstration) pay(ctx context.Context, invoices ...int) error {
	if len(invoices) == 0 {
		return nil
	}
	var all []batch.Batch
	for _, invoice := range invoices {
		p, err := s.books.makePayment(invoice, (invoice-1)%s.config.accounts)
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
			case s.outcomes <- paymentOutcome{rec, err}:
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// takeOutcome handles the end of a payment. A signed payment whose nonce another transaction took
// was certainly not made; it is signed again with the account's next nonce. For an intent the
// library does this.
func (s *demonstration) takeOutcome(ctx context.Context, o paymentOutcome) error {
	if o.err != nil {
		return o.err
	}
	s.records[o.rec.ID] = o.rec
	p := s.books.payments[o.rec.ID]
	switch {
	case o.rec.State == batch.Committed:
		s.paidInvoices++
		return nil
	case o.rec.State == batch.Rejected && !s.config.usesIntents:
		s.printLine("invoice %d: nonce %d is used, signed anew with nonce %d", p.invoice, p.nonce, s.books.nextNonces[p.account])
		return s.pay(ctx, p.invoice)
	}
	return fmt.Errorf("invoice %d: %s is %s: %w", p.invoice, o.rec.ID, o.rec.State, o.rec.Error)
}

// foreignWallet has another wallet with an account's key use that account's next nonce.
func (s *demonstration) foreignWallet(ctx context.Context) (bool, error) {
	account := (3 + 4*len(s.books.foreignNonces)) % s.config.accounts
	nonce := s.books.nextNonces[account]
	if s.config.usesIntents { // only the chain knows the nonce of an intent
		var pending quantity
		if err := s.chain.call(ctx, &pending, "eth_getTransactionCount", evmtest.Dev(account).Address(), "pending"); err != nil {
			return false, err
		}
		nonce = uint64(pending)
	}
	raw, hash := s.books.signForeign(account, nonce)
	err := s.chain.call(ctx, nil, "eth_sendRawTransaction", raw)
	if s.config.usesIntents && errors.Is(err, errNode) { // a payment took the nonce first
		delete(s.books.foreignNonces, hash)
		return false, nil
	}
	s.printLine("another wallet with the key of a%d takes its nonce %d: %.10s...", account, nonce, hash)
	return true, err
}

// raiseBaseFee makes the base fee jump above the lower prices. It then falls by an eighth with
// each block.
func (s *demonstration) raiseBaseFee(ctx context.Context) (bool, error) {
	const gwei = 30
	s.printLine("the base fee leaps to %d gwei: payments that offer less now offer more", gwei)
	return true, s.chain.call(ctx, nil, "anvil_setNextBlockBaseFeePerGas", quantity(gwei*1e9))
}

// reorg makes the chain replace its last blocks by empty ones, once there is a transaction in
// them.
func (s *demonstration) reorg(ctx context.Context) (bool, error) {
	head, err := s.chain.head(ctx)
	if err != nil || head < reorgDepth {
		return false, err
	}
	last, err := s.chain.readBlocks(ctx, head-reorgDepth+1, head)
	if err != nil || countTransactions(last) == 0 {
		return false, err
	}
	if err := s.chain.call(ctx, nil, "anvil_reorg", reorgDepth, []any{}); err != nil {
		return false, err
	}
	s.printLine("the chain replaces blocks %d to %d by others: %d transactions in them are undone", last[0].Number, head, countTransactions(last))
	return true, nil
}

// killNode kills the node and starts it again. The node has then lost the blocks since it last
// wrote its state, and all transactions that waited for a block.
func (s *demonstration) killNode(ctx context.Context) (bool, error) {
	head, err := s.chain.head(ctx)
	if err != nil {
		return false, err
	}
	last, err := s.chain.readBlocks(ctx, head-min(head, 2*depth), head)
	if err != nil || countTransactions(last[len(last)-min(len(last), reorgDepth):]) == 0 {
		return false, err
	}
	if err := s.node.Kill(); err != nil {
		return false, err
	}
	s.printLine("kill -9 of the node, at block %d", head)
	select {
	case <-time.After(nodeRestartDelay):
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
		time.Sleep(stepInterval)
		now, err = s.chain.head(ctx)
	}
	if err != nil {
		return false, err
	}
	lost := slices.DeleteFunc(last, func(b block) bool { return b.Number <= now })
	s.printLine("the node is back at block %d: %d transactions that it had executed are undone", now, countTransactions(lost))
	return true, nil
}

// killWorker kills the process that sends payments.
func (s *demonstration) killWorker(context.Context) (bool, error) {
	s.printLine("kill -9 of the process that sends (process %d), with %d payments on their way", s.worker.PID(), s.addedInvoices-s.paidInvoices)
	s.worker.Kill()
	s.workerEnded, s.workerRestart = nil, time.After(workerRestartDelay)
	return true, nil
}

func (s *demonstration) progress() progressState {
	return progressState{elapsed: time.Since(s.startedAt), added: s.addedInvoices, paid: s.paidInvoices, total: s.config.invoices, made: len(s.books.payments)}
}
