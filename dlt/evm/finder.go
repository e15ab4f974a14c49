package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// nonceUseFinder looks for the block that used a nonce.
type nonceUseFinder struct {
	*Client
	op       string
	endpoint *endpoint
	sender   evmtx.Address
	nonce    uint64
	ours     []evmtx.Hash
}

func (f *nonceUseFinder) askOne(ctx context.Context, method string, params ...any) (answer, error) {
	answers, err := f.ask(ctx, f.op, f.endpoint, []request{{method, params}})
	if err != nil {
		return answer{}, dlt.At(f.endpoint.shownAddress, f.asLedgerError(f.op, err))
	}
	return answers[0], nil
}

func (f *nonceUseFinder) doubt(format string, args ...any) error {
	return &dlt.Error{Op: f.op, Kind: dlt.ErrDoubt, Endpoint: f.endpoint.shownAddress, Message: f.show(fmt.Sprintf(format, args...))}
}

// nextNonceAt returns the account's next nonce after the block that a node has at a height. It
// shows where to look for the user of a nonce, and proves nothing: the next answer may be another
// node's.
func (f *nonceUseFinder) nextNonceAt(ctx context.Context, height uint64) (uint64, error) {
	a, err := f.askOne(ctx, "eth_getTransactionCount", f.sender.String(), hexQuantity(height))
	if err != nil {
		return 0, err
	}
	return f.readNextNonce(a, height)
}

// nextNonceAfter returns the account's next nonce after a block (EIP-1898), whichever node
// answers.
func (f *nonceUseFinder) nextNonceAfter(ctx context.Context, h evmtx.Hash, height uint64) (uint64, error) {
	a, err := f.askOne(ctx, "eth_getTransactionCount", f.sender.String(), afterBlock(h))
	if err != nil {
		return 0, err
	}
	return f.readNextNonce(a, height)
}

// afterBlock names a block by its hash, in a question about the state after it.
func afterBlock(h evmtx.Hash) any {
	return map[string]any{"blockHash": h.String(), "requireCanonical": true}
}

// readNextNonce reads the answer to a question for a next nonce after a block.
func (f *nonceUseFinder) readNextNonce(a answer, height uint64) (uint64, error) {
	if a.err != nil && classify(a.err) != classBusy {
		return 0, fmt.Errorf("%w: %w", errNoState, f.doubt("next nonce after block %d: %s", height, a.err.Message))
	}
	n, err := number(a)
	if err != nil {
		return 0, f.doubt("next nonce after block %d: %v", height, err)
	}
	return n, nil
}

// errNoState: a node says that it cannot tell an account's nonce after a block. Many keep the
// state of the last 128 only.
var errNoState = errors.New("no state of that block")

// nonceReader returns the account's next nonce after a block of a height.
type nonceReader func(ctx context.Context, v view, height uint64) (uint64, error)

// nextNonceByHeight asks by the number, as nodes take it that know no question by hash.
func (f *nonceUseFinder) nextNonceByHeight(ctx context.Context, _ view, height uint64) (uint64, error) {
	return f.nextNonceAt(ctx, height)
}

// nextNonceByHash asks by the hash of a block that is linked to the view, and remembers the
// answer. A node that does not have the block may have a neighbour that has it, so it asks again.
func (f *nonceUseFinder) nextNonceByHash(ctx context.Context, v view, height uint64) (n uint64, err error) {
	if err := f.linkDown(ctx, f.op, f.endpoint, &descent{linkedBlocks: v.linkedBlocks}, height); err != nil {
		return 0, err
	}
	h, linked := v.linkedBlocks.hashAt(height)
	if !linked {
		return 0, f.doubt("%s", v.describeGap(height))
	}
	for range 3 {
		if n, err = f.nextNonceAfter(ctx, h, height); !errors.Is(err, errNoState) {
			break
		}
	}
	if err == nil {
		f.searches.noteCount(f.sender, f.nonce, height, n)
	}
	return n, err
}

// findHeight returns the height at which the nonce was used. It goes back in growing steps,
// because nodes keep the state of the last blocks only, and then halves the rest.
func (f *nonceUseFinder) findHeight(ctx context.Context, v view, count nonceReader) (height uint64, found bool, err error) {
	high, step := v.deep.number, uint64(1)
	low, known, used := f.searches.bounds(f.sender, f.nonce)
	if high = min(high, used); !known {
		low = high
	}
	for low > 0 && !known { // block 0 executes nothing
		next := low - min(low, step)
		n, err := count(ctx, v, next)
		if errors.Is(err, errNoState) && step > 1 {
			step /= 2
			continue
		}
		if err != nil {
			return 0, false, err
		}
		low = next
		if n <= f.nonce {
			break
		}
		high, step = next, step*2
	}
	for high > low && high-low > 1 { // used after low, and not after high
		middle := low + (high-low)/2
		n, err := count(ctx, v, middle)
		if err != nil {
			return 0, false, err
		}
		if n > f.nonce {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true, nil
}

// askHeight asks for the transaction of the sender and nonce, which some nodes can answer.
func (f *nonceUseFinder) askHeight(ctx context.Context) (height uint64, found bool, err error) {
	a, err := f.askOne(ctx, "eth_getTransactionBySenderAndNonce", f.sender.String(), hexQuantity(f.nonce))
	if err != nil {
		if k := dlt.Kind(err); k == batch.KindBusy || k == batch.KindUnavailable {
			return 0, false, err
		}
		return 0, false, ctx.Err() // a proxy that does not list the method refuses it under any status
	}
	if !a.hasResult() || a.isNull() {
		return 0, false, nil
	}
	var doc struct {
		Block json.RawMessage `json:"blockNumber"`
	}
	if json.Unmarshal(a.result, &doc) == nil {
		height, err = quantity(doc.Block)
		found = err == nil
	}
	return height, found, nil
}

// readUse reads the whole block at a height and says who used the nonce there. It is the block
// that is linked to the view: what another one shows is no finding. Where it shows no user, what
// led there is forgotten.
func (f *nonceUseFinder) readUse(ctx context.Context, v view, height uint64) (u nonceUse, err error) {
	var a answer
	found := false
	for range 3 { // the next answer may be another node's
		if a, err = f.askOne(ctx, "eth_getBlockByNumber", hexQuantity(height), true); err != nil {
			return nonceUse{}, err
		}
		if u, found, err = f.findUseIn(a, height); err == nil {
			err = f.checkStandsOn(ctx, v, u.block)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case err != nil:
		return nonceUse{}, err
	case found && u.user == nonceUsedByAnother:
		f.highestDeep.update(v, true)
		return u, nil
	case found:
		return u, nil
	}
	if err := f.checkCounts(ctx, u.block); err != nil {
		f.searches.forgetCounts(f.sender, f.nonce)
		return nonceUse{}, err
	}
	if !f.hasAuthorization(a) {
		u.user = nonceUsedBySomeone
	}
	return u, nil
}

// findUseIn reads the whole block at a height. found means that a transaction in it used the
// nonce.
func (f *nonceUseFinder) findUseIn(a answer, height uint64) (u nonceUse, found bool, err error) {
	b, err := decodeBlock(a)
	if err != nil {
		return nonceUse{}, false, f.doubt("block %d: %v", height, err)
	}
	var doc struct {
		Transactions []struct {
			Hash  string          `json:"hash"`
			Type  json.RawMessage `json:"type"`
			From  string          `json:"from"`
			Nonce json.RawMessage `json:"nonce"`
		} `json:"transactions"`
	}
	if err := json.Unmarshal(a.result, &doc); err != nil {
		return nonceUse{}, false, f.doubt("block %d: %v", height, err)
	}
	if doc.Transactions == nil { // not an empty list, which is one
		return nonceUse{}, false, f.doubt("block %d: the node leaves out its transactions", height)
	}
	if b.number != height {
		return nonceUse{}, false, f.doubt("block %d: the node answers with block %d", height, b.number)
	}
	u = nonceUse{user: nonceUsedByAnother, block: b}
	for _, tx := range doc.Transactions {
		hash, ok := evmtx.ParseHash(tx.Hash)
		if ok && slices.Contains(f.ours, hash) {
			return nonceUse{user: nonceUsedByOurs, block: b}, true, nil
		}
		nonce, err := quantity(tx.Nonce)
		from, bad := evmtx.ParseAddress(tx.From)
		if err != nil || bad != nil || !ok {
			return nonceUse{}, false, f.doubt("block %d: a transaction without hash, sender or nonce", height)
		}
		if !usesNonce(tx.Type) {
			continue
		}
		if from == f.sender && nonce == f.nonce {
			u.hash = hash.String()
		}
	}
	return u, u.hash != "", nil
}

// usesNonce reports whether a transaction of a type uses up the nonce that a block shows for it.
// Other types, as Arbitrum's deposits, show an account and a nonce that they do not use.
func usesNonce(kind json.RawMessage) bool {
	n, err := quantity(kind)
	return err == nil && (n <= lastNonceType || n == optimismDepositType)
}

const (
	lastNonceType       = 4    // EIP-7702; the types from 0 on use their nonces
	optimismDepositType = 0x7e // Optimism's
)

// checkCounts makes sure that a block without the transaction used the nonce all the same, by both
// counts of one chain.
func (f *nonceUseFinder) checkCounts(ctx context.Context, b block) error {
	if b.number == 0 {
		return f.doubt("block 0 used nonce %d", f.nonce)
	}
	before, err := f.nextNonceAfter(ctx, b.parent, b.number-1)
	if err != nil {
		return err
	}
	after, err := f.nextNonceAfter(ctx, b.hash, b.number)
	if err != nil {
		return err
	}
	if before > f.nonce || after <= f.nonce {
		return f.doubt("nonce %d, between blocks %d and %d: counts %d and %d", f.nonce, b.number-1, b.number, before, after)
	}
	return nil
}

// hasAuthorization reports whether a block shows an authorization of the account that uses up the
// nonce (EIP-7702). A block without one proves nothing: its list may be missing, or code of the
// account has used the nonce for a contract.
func (f *nonceUseFinder) hasAuthorization(a answer) bool {
	var doc struct {
		Transactions []struct {
			Type  json.RawMessage `json:"type"`
			Auths []struct {
				ChainID string          `json:"chainId"`
				Address string          `json:"address"`
				Nonce   json.RawMessage `json:"nonce"`
				YParity json.RawMessage `json:"yParity"`
				R       string          `json:"r"`
				S       string          `json:"s"`
			} `json:"authorizationList"`
		} `json:"transactions"`
	}
	if json.Unmarshal(a.result, &doc) != nil {
		return false
	}
	for _, tx := range doc.Transactions {
		if kind, err := quantity(tx.Type); err != nil || kind != uint64(evmtx.SetCode) {
			continue
		}
		for _, one := range tx.Auths {
			nonce, err := quantity(one.Nonce)
			parity, bad := quantity(one.YParity)
			code, wrong := evmtx.ParseAddress(one.Address)
			chain := hexBig(one.ChainID)
			if errors.Join(err, bad, wrong) != nil || nonce != f.nonce || parity > 1 || chain == nil {
				continue
			}
			if !chain.IsUint64() || chain.Uint64() != 0 && chain.Uint64() != f.chain {
				continue // the chain passes over it
			}
			auth := evmtx.Authorization{ChainID: chain, Address: code, Nonce: nonce, YParity: byte(parity), R: hexBig(one.R), S: hexBig(one.S)}
			if signer, err := auth.Authority(); err == nil && signer == f.sender {
				return true
			}
		}
	}
	return false
}
