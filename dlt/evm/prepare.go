package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

const opPrepare = "prepare"

// Prepare implements [dlt.Ledger]. For a batch of which nothing is kept it chooses the account's
// next nonce, behind those that the other open batches of the lane keep; where anything else of
// the account is under way its error is [dlt.ErrNotYet]
// (docs/evm.md#several-intents-of-an-account). Later it returns the same bytes, or adds a
// transaction of the same nonce with higher fees to them, once the last one has waited for
// Options.BumpAfter blocks and the limit allows it. Where the node knows none of them and the last
// one pays the base fee, it returns the same bytes, too, unless Fees asks for more than that one
// pays, and the Signer signs it. A call that reverts where the node estimates its gas is
// ErrNotYet, and [dlt.ErrRejected] once it reverts after a later head, too. A Signer or Fees that
// fails is ErrNotYet, and so are kept bytes that this client cannot read, and a node that answers,
// but cannot say the account's nonce after the last deep block or gives no estimate of this call's
// gas. To the bytes of a batch that was withdrawn it adds a transfer of nothing of the same nonce,
// which may cost as much as SignerOptions.MaxFeePerGas. The error is a [*dlt.Error].
func (c *SigningClient) Prepare(ctx context.Context, a batch.Attempt) ([]byte, error) {
	in, sender, err := c.read(a.Key, a.Payload)
	if err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Message: c.c.show(err.Error())}
	}
	var out []byte
	err = c.c.onPreferred(ctx, a.Key, func(e *endpoint) (err error) {
		p := preparing{SigningClient: c, e: e, in: in, sender: sender, key: a.Key, salt: saltOf(a.Key), lane: a.Lane}
		switch {
		case len(a.Prepared) > 0:
			out, err = p.renew(ctx, a)
		case a.Withdrawn:
			err = &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Message: "withdrawn: " + errUnposted.Error()}
		default:
			out, err = p.first(ctx)
		}
		return unposted(err)
	})
	return out, err
}

// preparing is one Prepare.
type preparing struct {
	*SigningClient
	e      *endpoint
	in     intent
	sender evmtx.Address
	key    batch.Key
	salt   salt
	lane   [][]byte // what the other batches of the lane keep
	head   block
	market Market
}

func (p *preparing) notYet(format string, args ...any) error {
	return &dlt.Error{Op: opPrepare, Kind: dlt.ErrNotYet, Message: p.c.show(fmt.Sprintf(format, args...))}
}

// look asks for the node's view, the account's next nonces and the market.
func (p *preparing) look(ctx context.Context) (v view, latest, pending uint64, err error) {
	account := p.sender.String()
	v, answers, err := p.c.look(ctx, opPrepare, p.e, []request{
		{"eth_getTransactionCount", []any{account, "latest"}},
		{"eth_getTransactionCount", []any{account, "pending"}},
		{"eth_maxPriorityFeePerGas", nil},
	})
	if err != nil {
		return v, 0, 0, err
	}
	if latest, err = number(answers[0]); err == nil {
		pending, err = number(answers[1])
	}
	if err != nil {
		return v, 0, 0, &dlt.Error{Op: opPrepare, Kind: kindOfAny(answers[:2]), Message: p.c.show("next nonce: " + err.Error())}
	}
	legacy := v.head.baseFee == nil
	if legacy {
		if v.head.baseFee, err = p.gasPrice(ctx); err != nil {
			return v, 0, 0, err
		}
	}
	p.head = v.head
	p.market = Market{Account: account, BaseFee: v.head.baseFee, Legacy: legacy, history: p.history}
	if a := answers[2]; a.there() && !a.isNull() {
		p.market.Tip = hexBig(strings.Trim(string(a.result), `"`))
	}
	return v, latest, pending, nil
}

// gasPrice asks for the price of a unit of gas on a chain without a base fee.
func (p *preparing) gasPrice(ctx context.Context) (*big.Int, error) {
	answers, err := p.c.ask(ctx, opPrepare, p.e, []request{{"eth_gasPrice", nil}})
	if err != nil {
		return nil, p.c.typed(opPrepare, err)
	}
	a := answers[0]
	if price := hexBig(strings.Trim(string(a.result), `"`)); a.there() && price != nil && price.BitLen() <= feeBits {
		return price, nil
	}
	if a.err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: kindOf(a.err), Code: a.err.Code, Message: p.c.show("gas price of a chain without a base fee: " + a.err.Message)}
	}
	return nil, p.notYet("gas price of a chain without a base fee: %.80s is no number of wei", a.result)
}

// first makes a slot.
func (p *preparing) first(ctx context.Context) ([]byte, error) {
	if err := p.within(p.in); err != nil { // the limit was higher when it was added
		return nil, p.notYet("%v", err)
	}
	v, latest, pending, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	if v, err = p.deep(ctx, v); err != nil {
		return nil, err
	}
	nonce, err := p.nonce(ctx, v, latest, pending)
	if err != nil {
		return nil, err
	}
	if p.in.maxFee.Cmp(p.market.BaseFee) < 0 {
		if p.market.Legacy {
			return nil, p.notYet("the node's gas price at block %d is %s gwei, and the limit %s", p.head.number, gwei(p.market.BaseFee), gwei(p.in.maxFee))
		}
		return nil, p.notYet("the base fee of block %d is %s gwei, and the limit %s", p.head.number, gwei(p.market.BaseFee), gwei(p.in.maxFee))
	}
	gas, err := p.gas(ctx, nonce > latest)
	if err != nil {
		return nil, err
	}
	e, err := p.sign(ctx, p, nonce, gas, Fee{}, p.in.maxFee)
	if err != nil {
		return nil, err
	}
	s := slot{nonce: nonce, gas: gas, maxFee: p.in.maxFee, entries: []entry{e}}
	return s.encode(), nil
}

// deep completes a view by the hash of its deep block, to which the head is linked. It refuses a
// node that is behind. By the finality of a tag the node names its deep block itself.
func (p *preparing) deep(ctx context.Context, v view) (view, error) {
	if settled := p.c.floor.see(v, false); settled > 0 && (v.none || v.deep.number < settled) {
		return v, p.c.behind(opPrepare, "the node is behind: its last block is %d, and block %d was deep", v.head.number, settled)
	}
	if v.none || p.c.o.Finality.byTag() {
		return v, nil
	}
	if err := p.c.link(ctx, opPrepare, p.e, &linking{line: v.line}, v.deep.number); err != nil {
		return v, err
	}
	hash, linked := v.line.at(v.deep.number)
	if !linked {
		return v, p.c.behind(opPrepare, "%s", v.unlinked(v.deep.number))
	}
	v.deep.hash = hash
	p.c.floor.see(v, false)
	return v, nil
}

// deepCount returns the account's next nonce after the view's deep block.
func (p *preparing) deepCount(ctx context.Context, v view) (uint64, error) {
	at := any("0x0") // block 0 is never taken back
	if !v.none {
		at = inBlockOf(v.deep.hash)
	}
	reqs := append([]request{{"eth_getTransactionCount", []any{p.sender.String(), at}}}, p.c.parentRequest(v.head)...)
	answers, err := p.c.ask(ctx, opPrepare, p.e, reqs)
	if err != nil {
		return 0, dlt.At(p.e.shown, p.c.typed(opPrepare, err))
	}
	f := finder{Client: p.c, op: opPrepare, e: p.e, sender: p.sender}
	deep, err := f.countOf(answers[0], v.deep.number)
	if errors.Is(err, errNoState) { // it answers, and only this question is too much for it
		return 0, p.notYet("the node has no state of block %d, which is deep, and so no nonce is sure: %s", v.deep.number, saying(err))
	}
	if err != nil {
		return 0, err
	}
	if err := p.c.standsOnParent(opPrepare, v.head, answers[1:]); err != nil {
		return 0, err
	}
	return deep, nil
}

// nonce returns the account's next one, by [nextNonce].
func (p *preparing) nonce(ctx context.Context, v view, latest, pending uint64) (uint64, error) {
	deep, err := p.deepCount(ctx, v)
	if err != nil {
		return 0, err
	}
	held, err := heldNonces(p.lane)
	if err != nil {
		return 0, p.notYet("another batch of the lane: %v", err)
	}
	nonce, missing, ok := nextNonce(deep, latest, pending, held)
	switch {
	case ok:
		return nonce, nil
	case missing:
		return 0, p.notYet("nonce %d of the account is of no open batch of the lane, and later ones are: it is closed first, or was executed and is not deep at this node", nonce)
	}
	return 0, p.notYet("the account has transactions under way: its next nonce is %d in block %d, which is deep, %d in the last block and %d with the pool, and %s", deep, v.deep.number, latest, pending, laneText(held))
}

// saying returns the words of a question's error, without its kind.
func saying(err error) string {
	e, ok := errors.AsType[*dlt.Error](err)
	if !ok {
		return err.Error()
	}
	var all []string
	if e.StatusCode != 0 {
		all = append(all, fmt.Sprintf("HTTP %d", e.StatusCode))
	}
	if e.Message != "" {
		all = append(all, e.Message)
	}
	if e.Err != nil {
		all = append(all, e.Err.Error())
	}
	return strings.Join(all, ": ")
}

// gas returns the intent's gas, or the node's estimate, a quarter more, and the batch's salt.
// behind says that earlier intents of the account are in no block: then the estimate is after the
// node's pending block, as far as it has one, and a call that would be taken back waits for them.
func (p *preparing) gas(ctx context.Context, behind bool) (uint64, error) {
	if p.in.gas != 0 {
		return p.in.gas, nil
	}
	call := map[string]any{"from": p.sender.String(), "value": "0x" + p.in.value.Text(16)}
	if p.in.to != nil {
		call["to"] = p.in.to.String()
	}
	if len(p.in.data) > 0 {
		call["data"] = hexText(p.in.data)
	}
	var after []any
	if behind {
		after = []any{"pending"}
	}
	estimate, reverts, err := p.estimate(ctx, call, after...)
	if reverts != nil && behind { // the transactions before it may provide what it needs
		return 0, p.notYet("the call would be taken back while earlier intents of the account are in no block: %s; with Intent.Gas nothing is estimated", reverts.Message)
	}
	if reverts != nil { // where the node was that said so, nobody knows
		estimate, reverts, err = p.estimate(ctx, call, inBlockOf(p.head.hash))
	}
	if reverts != nil {
		return 0, p.reverts(reverts)
	}
	if err != nil {
		return 0, err
	}
	p.c.heard.forget(p.call())
	least := p.leastGas(p.in.tx(p.c.chain, 0, 0, Fee{}))
	addition := uint64(0)
	if estimate > least {
		addition = estimate / 4
	}
	return p.salt.gas(max(estimate, least), addition, p.head), nil
}

// estimate asks for the gas of a call, where there is a block after it. reverts is the node's word
// that the call would be taken back.
func (p *preparing) estimate(ctx context.Context, call any, after ...any) (gas uint64, reverts *rpcError, err error) {
	answers, err := p.c.ask(ctx, opPrepare, p.e, []request{{"eth_estimateGas", append([]any{call}, after...)}})
	if dlt.Kind(err) == batch.KindDoubt { // it has answered a moment ago: only this call is too much for it
		return 0, nil, p.notYet("no estimate of the gas: %s", saying(err))
	}
	if err != nil {
		return 0, nil, p.c.typed(opPrepare, err)
	}
	if e := answers[0].err; e != nil {
		switch kind := kindOf(e); {
		case strings.Contains(strings.ToLower(e.Message), "revert"):
			return 0, e, nil
		case kind == dlt.ErrDoubt: //nolint:errorlint // a sentinel itself
			return 0, nil, p.notYet("no estimate of the gas: %s", e.Message)
		default:
			return 0, nil, &dlt.Error{Op: opPrepare, Kind: kind, Code: e.Code, Message: p.c.show("estimate of the gas: " + e.Message)}
		}
	}
	if gas, err = number(answers[0]); err != nil {
		return 0, nil, p.notYet("no estimate of the gas: %v", err)
	}
	return gas, nil, nil
}

func (p *preparing) call() string { return "call " + string(p.key.Service) + " " + string(p.key.ID) }

// reverts returns the error for a call that would be taken back after the view's head. The batch
// is refused once the chain says the same at a later head.
func (p *preparing) reverts(e *rpcError) error {
	out := &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Code: e.Code, Message: p.c.show("the call would be taken back: " + e.Message)}
	if !p.c.heard.earlier(p.call(), p.head.number) {
		out.Kind, out.Err = dlt.ErrNotYet, errElsewhere
	}
	return out
}

// renew returns the slot as it is, or with another entry.
func (p *preparing) renew(ctx context.Context, a batch.Attempt) ([]byte, error) {
	kept := a.Prepared
	s, err := p.slot(kept)
	if err == nil {
		_, err = s.tx(s.last(), p.in, p.sender, p.c.chain)
	}
	switch {
	case err != nil:
		return nil, p.c.broken(opPrepare, a.Key, err)
	case s.closing():
		p.in = nothing(p.sender)
	case a.Withdrawn:
		return p.closes(ctx, s, kept)
	}
	if !s.canRise() {
		return kept, nil
	}
	_, latest, _, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	if latest > s.nonce || !s.stalled(p.head, p.c.o.BumpAfter) { // mined, by whomever; or it may yet be
		return kept, nil
	}
	if latest < s.nonce && s.last().fee.pays(p.head) { // another one has to be mined before it
		return s.again(p.head, kept), nil
	}
	forgotten := false
	if s.last().fee.pays(p.head) {
		if forgotten, err = p.c.forgotten(ctx, p.e, s.hashes()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.SignTimeout) // of all calls together
	defer cancel()
	// A transaction in no pool waits for funds, say, and not for a higher fee, which it would pay
	// later.
	if forgotten && !p.asksMore(ctx, s) {
		return kept, nil
	}
	if err := p.c.isLinked(ctx, opPrepare, p.e, p.head); err != nil {
		return nil, err
	}
	p.market.Last = s.last().fee
	e, err := p.sign(ctx, p, s.nonce, cmp.Or(s.last().closing, s.gas), s.least(), s.maxFee)
	e.closing = s.last().closing
	switch {
	case err != nil && forgotten:
		return kept, nil
	case err != nil:
		return nil, err
	}
	return e.append(append([]byte(nil), kept...)), nil
}

// asksMore reports whether Fees asks now for more than the last transaction of a slot pays, as for
// the first one of a batch. A part of the fee cap that the salt may have taken away is not more.
func (p *preparing) asksMore(ctx context.Context, s *slot) bool {
	last := s.last().fee
	fee, err := p.asked(ctx, s.maxFee)
	if err != nil {
		return false
	}
	least := new(big.Int).Sub(fee.FeeCap, new(big.Int).Rsh(fee.FeeCap, feeShare))
	return fee.Tip.Cmp(last.Tip) > 0 || least.Cmp(last.FeeCap) > 0
}

// forgotten asks whether a node knows none of some transactions.
func (c *Client) forgotten(ctx context.Context, e *endpoint, hashes []evmtx.Hash) (bool, error) {
	var reqs []request
	for _, h := range hashes {
		reqs = append(reqs, request{"eth_getTransactionByHash", []any{h.String()}})
	}
	answers, err := c.ask(ctx, opPrepare, e, reqs)
	if err != nil {
		return false, c.typed(opPrepare, err)
	}
	for _, a := range answers {
		if a.err != nil && classify(a.err) == classBusy { // it does not say that the node knows one
			return false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrBusy, Code: a.err.Code, Message: c.show(a.err.Message)}
		}
	}
	return !slices.ContainsFunc(answers, func(a answer) bool { return !a.isNull() }), nil
}
