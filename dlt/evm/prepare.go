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
	in, sender, err := c.readIntent(a.Key, a.Payload)
	if err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Message: c.client.shownText(err.Error())}
	}
	var out []byte
	err = c.client.onPreferred(ctx, a.Key, func(e *endpoint) (err error) {
		p := preparation{SigningClient: c, endpoint: e, intent: in, sender: sender, key: a.Key, salt: saltOf(a.Key), lane: a.Lane}
		switch {
		case len(a.Prepared) > 0:
			out, err = p.renew(ctx, a)
		case a.Withdrawn:
			err = &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Message: "withdrawn: " + errNothingPrepared.Error()}
		default:
			out, err = p.prepareFirst(ctx)
		}
		return doubtAsUnavailable(err)
	})
	return out, err
}

// preparation is one call of Prepare.
type preparation struct {
	*SigningClient
	endpoint *endpoint
	intent   intent
	sender   evmtx.Address
	key      batch.Key
	salt     salt
	lane     [][]byte // the prepared bytes of the other batches of the lane
	head     block
	market   Market
}

func (p *preparation) notYetError(format string, args ...any) error {
	return &dlt.Error{Op: opPrepare, Kind: dlt.ErrNotYet, Message: p.client.shownText(fmt.Sprintf(format, args...))}
}

// askState asks for the node's view, the account's next nonces and the market.
func (p *preparation) askState(ctx context.Context) (v view, latest, pending uint64, err error) {
	account := p.sender.String()
	v, answers, err := p.client.askView(ctx, opPrepare, p.endpoint, []request{
		{"eth_getTransactionCount", []any{account, "latest"}},
		{"eth_getTransactionCount", []any{account, "pending"}},
		{"eth_maxPriorityFeePerGas", nil},
	})
	if err != nil {
		return v, 0, 0, err
	}
	if latest, err = decodeNumber(answers[0]); err == nil {
		pending, err = decodeNumber(answers[1])
	}
	if err != nil {
		return v, 0, 0, &dlt.Error{Op: opPrepare, Kind: kindOfAny(answers[:2]), Message: p.client.shownText("next nonce: " + err.Error())}
	}
	legacy := v.head.baseFee == nil
	if legacy {
		if v.head.baseFee, err = p.gasPrice(ctx); err != nil {
			return v, 0, 0, err
		}
	}
	p.head = v.head
	p.market = Market{Account: account, BaseFee: v.head.baseFee, Legacy: legacy, askHistory: p.askHistory}
	if a := answers[2]; a.hasResult() && !a.isNull() {
		p.market.Tip = hexBig(strings.Trim(string(a.result), `"`))
	}
	return v, latest, pending, nil
}

// gasPrice asks for the price of a unit of gas on a chain without a base fee.
func (p *preparation) gasPrice(ctx context.Context) (*big.Int, error) {
	answers, err := p.client.ask(ctx, opPrepare, p.endpoint, []request{{"eth_gasPrice", nil}})
	if err != nil {
		return nil, p.client.asLedgerError(opPrepare, err)
	}
	a := answers[0]
	if price := hexBig(strings.Trim(string(a.result), `"`)); a.hasResult() && price != nil && price.BitLen() <= feeBits {
		return price, nil
	}
	if a.err != nil {
		return nil, &dlt.Error{Op: opPrepare, Kind: kindOf(a.err), Code: a.err.Code, Message: p.client.shownText("gas price of a chain without a base fee: " + a.err.Message)}
	}
	return nil, p.notYetError("gas price of a chain without a base fee: %.80s is no number of wei", a.result)
}

// prepareFirst returns a new slot with its first transaction.
func (p *preparation) prepareFirst(ctx context.Context) ([]byte, error) {
	if err := p.checkLimit(p.intent); err != nil { // the limit may have been higher when the batch was added
		return nil, p.notYetError("%v", err)
	}
	v, latest, pending, err := p.askState(ctx)
	if err != nil {
		return nil, err
	}
	if v, err = p.addDeepHash(ctx, v); err != nil {
		return nil, err
	}
	nonce, err := p.chooseNonce(ctx, v, latest, pending)
	if err != nil {
		return nil, err
	}
	if p.intent.maxFee.Cmp(p.market.BaseFee) < 0 {
		if p.market.Legacy {
			return nil, p.notYetError("the node's gas price at block %d is %s gwei, and the limit %s", p.head.number, gwei(p.market.BaseFee), gwei(p.intent.maxFee))
		}
		return nil, p.notYetError("the base fee of block %d is %s gwei, and the limit %s", p.head.number, gwei(p.market.BaseFee), gwei(p.intent.maxFee))
	}
	gas, err := p.chooseGas(ctx, nonce > latest)
	if err != nil {
		return nil, err
	}
	e, err := p.sign(ctx, p, nonce, gas, Fee{}, p.intent.maxFee)
	if err != nil {
		return nil, err
	}
	s := slot{nonce: nonce, gas: gas, maxFee: p.intent.maxFee, entries: []entry{e}}
	return s.encode(), nil
}

// addDeepHash adds to a view the hash of its deep block, to which it links the head. It returns an
// error for a node that is behind. With a finality by tag, the node has named its deep block
// itself.
func (p *preparation) addDeepHash(ctx context.Context, v view) (view, error) {
	if settled := p.client.highestDeep.update(v, false); settled > 0 && (v.isNoneDeep || v.deep.number < settled) {
		return v, p.client.behindError(opPrepare, "the node is behind: its last block is %d, and block %d was deep", v.head.number, settled)
	}
	if v.isNoneDeep || p.client.options.Finality.usesTag() {
		return v, nil
	}
	if err := p.client.linkDown(ctx, opPrepare, p.endpoint, &blockDescent{linkedBlocks: v.linkedBlocks}, v.deep.number); err != nil {
		return v, err
	}
	hash, linked := v.linkedBlocks.hashAt(v.deep.number)
	if !linked {
		return v, p.client.behindError(opPrepare, "%s", v.describeGap(v.deep.number))
	}
	v.deep.hash = hash
	p.client.highestDeep.update(v, false)
	return v, nil
}

// nonceAfterDeep returns the account's next nonce after the view's deep block.
func (p *preparation) nonceAfterDeep(ctx context.Context, v view) (uint64, error) {
	at := any("0x0") // block 0 is never taken back
	if !v.isNoneDeep {
		at = afterBlock(v.deep.hash)
	}
	reqs := append([]request{{"eth_getTransactionCount", []any{p.sender.String(), at}}}, p.client.parentRequest(v.head)...)
	answers, err := p.client.ask(ctx, opPrepare, p.endpoint, reqs)
	if err != nil {
		return 0, dlt.At(p.endpoint.shownAddress, p.client.asLedgerError(opPrepare, err))
	}
	f := nonceUseFinder{Client: p.client, op: opPrepare, endpoint: p.endpoint, sender: p.sender}
	deep, err := f.readNextNonce(answers[0], v.deep.number)
	if errors.Is(err, errNoState) { // the node answers, but not this question
		return 0, p.notYetError("the node has no state of block %d, which is deep, and so no nonce is sure: %s", v.deep.number, errorText(err))
	}
	if err != nil {
		return 0, err
	}
	if err := p.client.checkParent(opPrepare, v.head, answers[1:]); err != nil {
		return 0, err
	}
	return deep, nil
}

// chooseNonce returns the account's next nonce, as [nextNonce] decides.
func (p *preparation) chooseNonce(ctx context.Context, v view, latest, pending uint64) (uint64, error) {
	deep, err := p.nonceAfterDeep(ctx, v)
	if err != nil {
		return 0, err
	}
	held, err := heldNonces(p.lane)
	if err != nil {
		return 0, p.notYetError("another batch of the lane: %v", err)
	}
	nonce, missing, ok := nextNonce(deep, latest, pending, held)
	switch {
	case ok:
		return nonce, nil
	case missing:
		return 0, p.notYetError("nonce %d of the account is of no open batch of the lane, and later ones are: it is closed first, or was executed and is not deep at this node", nonce)
	}
	return 0, p.notYetError("the account has transactions under way: its next nonce is %d in block %d, which is deep, %d in the last block and %d with the pool, and %s", deep, v.deep.number, latest, pending, describeLane(held))
}

// errorText returns the text of a question's error, without its kind.
func errorText(err error) string {
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

// chooseGas returns the intent's gas, or the node's estimate plus a quarter and the batch's salt.
// behind is true if earlier intents of the account are in no block. The estimate is then for the
// state after the node's pending block, if the node has one, and a call that would revert waits
// for those intents.
func (p *preparation) chooseGas(ctx context.Context, behind bool) (uint64, error) {
	if p.intent.gas != 0 {
		return p.intent.gas, nil
	}
	call := map[string]any{"from": p.sender.String(), "value": "0x" + p.intent.value.Text(16)}
	if p.intent.to != nil {
		call["to"] = p.intent.to.String()
	}
	if len(p.intent.data) > 0 {
		call["data"] = hexText(p.intent.data)
	}
	var after []any
	if behind {
		after = []any{"pending"}
	}
	estimate, reverts, err := p.estimateGas(ctx, call, after...)
	if reverts != nil && behind { // the transactions before this one may provide what the call needs
		return 0, p.notYetError("the call would be taken back while earlier intents of the account are in no block: %s; with Intent.Gas nothing is estimated", reverts.Message)
	}
	if reverts != nil { // nobody knows after which block the call reverted
		estimate, reverts, err = p.estimateGas(ctx, call, afterBlock(p.head.hash))
	}
	if reverts != nil {
		return 0, p.revertError(reverts)
	}
	if err != nil {
		return 0, err
	}
	p.client.refusals.forget(p.callName())
	least := p.leastGas(p.intent.tx(p.client.chain, 0, 0, Fee{}))
	addition := uint64(0)
	if estimate > least {
		addition = estimate / 4
	}
	return p.salt.addGas(max(estimate, least), addition, p.head), nil
}

// estimateGas asks for the gas of a call, after the block that after names, if any. reverts is the
// node's error if the call would revert.
func (p *preparation) estimateGas(ctx context.Context, call any, after ...any) (gas uint64, reverts *rpcError, err error) {
	answers, err := p.client.ask(ctx, opPrepare, p.endpoint, []request{{"eth_estimateGas", append([]any{call}, after...)}})
	if dlt.Kind(err) == batch.KindDoubt { // the node has answered a moment ago: only this question is too much for it
		return 0, nil, p.notYetError("no estimate of the gas: %s", errorText(err))
	}
	if err != nil {
		return 0, nil, p.client.asLedgerError(opPrepare, err)
	}
	if e := answers[0].err; e != nil {
		switch kind := kindOf(e); {
		case strings.Contains(strings.ToLower(e.Message), "revert"):
			return 0, e, nil
		case kind == dlt.ErrDoubt: //nolint:errorlint // a sentinel itself
			return 0, nil, p.notYetError("no estimate of the gas: %s", e.Message)
		default:
			return 0, nil, &dlt.Error{Op: opPrepare, Kind: kind, Code: e.Code, Message: p.client.shownText("estimate of the gas: " + e.Message)}
		}
	}
	if gas, err = decodeNumber(answers[0]); err != nil {
		return 0, nil, p.notYetError("no estimate of the gas: %v", err)
	}
	return gas, nil, nil
}

func (p *preparation) callName() string {
	return "call " + string(p.key.Service) + " " + string(p.key.ID)
}

// revertError returns the error for a call that would revert after the view's head. The batch is
// refused once the call also reverts at a later head.
func (p *preparation) revertError(e *rpcError) error {
	out := &dlt.Error{Op: opPrepare, Kind: dlt.ErrRejected, Code: e.Code, Message: p.client.shownText("the call would be taken back: " + e.Message)}
	if !p.client.refusals.isRepeated(p.callName(), p.head.number) {
		out.Kind, out.Err = dlt.ErrNotYet, errAskAnother
	}
	return out
}

// renew returns the prepared bytes unchanged, or with one more entry.
func (p *preparation) renew(ctx context.Context, a batch.Attempt) ([]byte, error) {
	kept := a.Prepared
	s, err := p.readSlot(kept)
	if err == nil {
		_, err = s.tx(s.lastEntry(), p.intent, p.sender, p.client.chain)
	}
	switch {
	case err != nil:
		return nil, p.client.unreadableError(opPrepare, a.Key, err)
	case s.isClosing():
		p.intent = transferOfNothing(p.sender)
	case a.Withdrawn:
		return p.addClosing(ctx, s, kept)
	}
	if !s.canRise() {
		return kept, nil
	}
	_, latest, _, err := p.askState(ctx)
	if err != nil {
		return nil, err
	}
	if latest > s.nonce || !s.isStalled(p.head, p.client.options.BumpAfter) { // the nonce is used, by any transaction, or the last transaction may still be mined
		return kept, nil
	}
	if latest < s.nonce && s.lastEntry().fee.paysBaseFee(p.head) { // an earlier nonce has to be mined first
		return s.repeatLast(p.head, kept), nil
	}
	forgotten := false
	if s.lastEntry().fee.paysBaseFee(p.head) {
		if forgotten, err = p.client.isForgotten(ctx, p.endpoint, s.hashes()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.SignTimeout) // for all calls together
	defer cancel()
	// A transaction that is in no pool waits for something else than a higher fee, such as funds,
	// and would pay that fee later.
	if forgotten && !p.isMoreAsked(ctx, s) {
		return kept, nil
	}
	if err := p.client.checkLinked(ctx, opPrepare, p.endpoint, p.head); err != nil {
		return nil, err
	}
	p.market.Last = s.lastEntry().fee
	e, err := p.sign(ctx, p, s.nonce, cmp.Or(s.lastEntry().closingGas, s.gas), s.leastReplacement(), s.maxFee)
	e.closingGas = s.lastEntry().closingGas
	switch {
	case err != nil && forgotten:
		return kept, nil
	case err != nil:
		return nil, err
	}
	return e.append(append([]byte(nil), kept...)), nil
}

// isMoreAsked reports whether Fees now asks for more than the last transaction of the slot pays,
// as if for the first transaction of a batch. An amount that the salt may have taken from the fee
// cap does not count as more.
func (p *preparation) isMoreAsked(ctx context.Context, s *slot) bool {
	last := s.lastEntry().fee
	fee, err := p.askFeesOnly(ctx, s.maxFee)
	if err != nil {
		return false
	}
	least := new(big.Int).Sub(fee.FeeCap, new(big.Int).Rsh(fee.FeeCap, feeShareShift))
	return fee.Tip.Cmp(last.Tip) > 0 || least.Cmp(last.FeeCap) > 0
}

// isForgotten asks whether the node knows none of the transactions with these hashes.
func (c *Client) isForgotten(ctx context.Context, e *endpoint, hashes []evmtx.Hash) (bool, error) {
	var requests []request
	for _, h := range hashes {
		requests = append(requests, request{"eth_getTransactionByHash", []any{h.String()}})
	}
	answers, err := c.ask(ctx, opPrepare, e, requests)
	if err != nil {
		return false, c.asLedgerError(opPrepare, err)
	}
	for _, a := range answers {
		if a.err != nil && classify(a.err) == classBusy { // this answer does not say that the node knows a transaction
			return false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrBusy, Code: a.err.Code, Message: c.shownText(a.err.Message)}
		}
	}
	return !slices.ContainsFunc(answers, func(a answer) bool { return !a.isNull() }), nil
}
