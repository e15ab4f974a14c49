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

// nonceUseFinder looks for the block in which an account's nonce was used.
type nonceUseFinder struct {
	*Client
	op        string
	endpoint  *endpoint
	sender    evmtx.Address
	nonce     uint64
	ownHashes []evmtx.Hash
}

func (f *nonceUseFinder) askOne(ctx context.Context, method string, params ...any) (answer, error) {
	answers, err := f.ask(ctx, f.op, f.endpoint, []request{{method, params}})
	if err != nil {
		return answer{}, dlt.At(f.endpoint.shownAddress, f.asLedgerError(f.op, err))
	}
	return answers[0], nil
}

func (f *nonceUseFinder) doubt(format string, args ...any) error {
	return &dlt.Error{Op: f.op, Kind: dlt.ErrDoubt, Endpoint: f.endpoint.shownAddress, Message: f.shownText(fmt.Sprintf(format, args...))}
}

// nextNonceAt returns the account's next nonce after the block that the node has at a height. The
// result shows where to look for the transaction that used a nonce. It proves nothing, because
// another node may give the next answer.
func (f *nonceUseFinder) nextNonceAt(ctx context.Context, height uint64) (uint64, error) {
	a, err := f.askOne(ctx, "eth_getTransactionCount", f.sender.String(), hexQuantity(height))
	if err != nil {
		return 0, err
	}
	return f.readNextNonce(a, height)
}

// nextNonceAfter returns the account's next nonce after the block with the hash h (EIP-1898).
// Every node gives the same answer.
func (f *nonceUseFinder) nextNonceAfter(ctx context.Context, h evmtx.Hash, height uint64) (uint64, error) {
	a, err := f.askOne(ctx, "eth_getTransactionCount", f.sender.String(), afterBlock(h))
	if err != nil {
		return 0, err
	}
	return f.readNextNonce(a, height)
}

// afterBlock names a block by its hash, as a parameter of a question about the state after that
// block.
func afterBlock(h evmtx.Hash) any {
	return map[string]any{"blockHash": h.String(), "requireCanonical": true}
}

// readNextNonce reads the answer to a question about an account's next nonce after a block.
func (f *nonceUseFinder) readNextNonce(a answer, height uint64) (uint64, error) {
	if a.err != nil && classify(a.err) != classBusy {
		return 0, fmt.Errorf("%w: %w", errNoState, f.doubt("next nonce after block %d: %s", height, a.err.Message))
	}
	n, err := decodeNumber(a)
	if err != nil {
		return 0, f.doubt("next nonce after block %d: %v", height, err)
	}
	return n, nil
}

// errNoState means that the node cannot tell an account's nonce after a block. Many nodes keep the
// state of the last 128 blocks only.
var errNoState = errors.New("no state of that block")

// nonceReader returns the account's next nonce after the block at a height.
type nonceReader func(ctx context.Context, v view, height uint64) (uint64, error)

// nextNonceByHeight asks by the block's number, for nodes that do not take a block's hash.
func (f *nonceUseFinder) nextNonceByHeight(ctx context.Context, _ view, height uint64) (uint64, error) {
	return f.nextNonceAt(ctx, height)
}

// nextNonceByHash asks by the hash of a block that is linked to the view, and remembers the
// answer. It asks again if the node does not have the block, because another node behind the same
// address may have it.
func (f *nonceUseFinder) nextNonceByHash(ctx context.Context, v view, height uint64) (n uint64, err error) {
	if err := f.linkDown(ctx, f.op, f.endpoint, &blockDescent{linkedBlocks: v.linkedBlocks}, height); err != nil {
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

// findHeight returns the height at which the nonce was used. It first goes back from the deep
// block in growing steps, because nodes keep the state of the last blocks only. Then it halves the
// remaining range.
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
	for high > low && high-low > 1 { // the nonce is used above low, at high or below
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

// askHeight asks for the transaction of the sender and nonce, a question that some nodes can
// answer.
func (f *nonceUseFinder) askHeight(ctx context.Context) (height uint64, found bool, err error) {
	a, err := f.askOne(ctx, "eth_getTransactionBySenderAndNonce", f.sender.String(), hexQuantity(f.nonce))
	if err != nil {
		if k := dlt.Kind(err); k == batch.KindBusy || k == batch.KindUnavailable {
			return 0, false, err
		}
		return 0, false, ctx.Err() // a proxy whose list lacks the method may refuse it with any status
	}
	if !a.hasResult() || a.isNull() {
		return 0, false, nil
	}
	var doc struct {
		Block json.RawMessage `json:"blockNumber"`
	}
	if json.Unmarshal(a.result, &doc) == nil {
		height, err = decodeQuantity(doc.Block)
		found = err == nil
	}
	return height, found, nil
}

// readUse reads the block at a height with its transactions and returns which of them used the
// nonce. The block must be linked to the view: a block that is not proves nothing. If the block
// does not show the use, readUse forgets the remembered answers that led to this height.
func (f *nonceUseFinder) readUse(ctx context.Context, v view, height uint64) (u nonceUse, err error) {
	var a answer
	found := false
	for range 3 { // another node may give the next answer
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

// findUseIn reads the answer with the block at a height. found is true if a transaction in the
// block used the nonce.
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
	if doc.Transactions == nil { // null or no field; an empty list is not nil
		return nonceUse{}, false, f.doubt("block %d: the node leaves out its transactions", height)
	}
	if b.number != height {
		return nonceUse{}, false, f.doubt("block %d: the node answers with block %d", height, b.number)
	}
	u = nonceUse{user: nonceUsedByAnother, block: b}
	for _, tx := range doc.Transactions {
		hash, ok := evmtx.ParseHash(tx.Hash)
		if ok && slices.Contains(f.ownHashes, hash) {
			return nonceUse{user: nonceUsedByOurs, block: b}, true, nil
		}
		nonce, err := decodeQuantity(tx.Nonce)
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

// usesNonce reports whether a transaction of this type uses up the nonce that a block shows for
// it. Other types, such as Arbitrum's deposits, show an account and a nonce that they do not use.
func usesNonce(kind json.RawMessage) bool {
	n, err := decodeQuantity(kind)
	return err == nil && (n <= lastNonceType || n == optimismDepositType)
}

const (
	lastNonceType       = 4    // EIP-7702; all types from 0 up to this one use their nonces
	optimismDepositType = 0x7e // the type of a deposit on Optimism
)

// checkCounts makes sure that the nonce was used in a block that does not show the use. It
// compares the account's counts after the block and after the block's parent.
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
// nonce (EIP-7702). A block that shows none proves nothing: the node may leave the list out, or
// code of the account may have used the nonce to create a contract.
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
		if kind, err := decodeQuantity(tx.Type); err != nil || kind != uint64(evmtx.SetCode) {
			continue
		}
		for _, one := range tx.Auths {
			nonce, err := decodeQuantity(one.Nonce)
			parity, bad := decodeQuantity(one.YParity)
			code, wrong := evmtx.ParseAddress(one.Address)
			chain := hexBig(one.ChainID)
			if errors.Join(err, bad, wrong) != nil || nonce != f.nonce || parity > 1 || chain == nil {
				continue
			}
			if !chain.IsUint64() || chain.Uint64() != 0 && chain.Uint64() != f.chain {
				continue // the chain ignores this authorization
			}
			auth := evmtx.Authorization{ChainID: chain, Address: code, Nonce: nonce, YParity: byte(parity), R: hexBig(one.R), S: hexBig(one.S)}
			if signer, err := auth.Authority(); err == nil && signer == f.sender {
				return true
			}
		}
	}
	return false
}
