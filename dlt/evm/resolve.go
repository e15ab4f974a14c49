package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

const opResolve = "resolve"

// Resolve implements [dlt.Resolver]. A transaction can never take effect once a deep block has
// used its nonce, for another transaction or for this one, which reverted; alternatives have one
// nonce. Nothing else ends its life, neither time nor a pool that forgets it. NotCommitted means that
// such a block, or receipt, was read. The error is a [*dlt.Error].
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	p, err := c.read(d.Key, d.Payload)
	if err != nil {
		return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrRejected, Message: c.show(err.Error())}
	}
	late := ctx.Err() != nil
	for _, e := range c.inTurn() {
		var found dlt.Evidence
		if found, err = c.resolve(ctx, e, p); err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			if !late && isEndpoints(ctx, err) {
				c.leave(e, err) // so that another one is asked first the next time
			}
			return found, err
		}
	}
	return dlt.CannotTell, err
}

func (c *Client) resolve(ctx context.Context, e *endpoint, p *payment) (dlt.Evidence, error) {
	statuses, err := c.statuses(ctx, e, []asked{{id: p.id(), account: p.sender.String(), hashes: p.hashes}}, nil)
	if err != nil {
		return dlt.CannotTell, err
	}
	if len(statuses) == 0 {
		return dlt.InFlight, nil // the answers contradict each other: ask again
	}
	switch statuses[0].Reported {
	case batch.ReportedCommitted:
		return dlt.Committed, nil
	case batch.ReportedInvalid: // reverted in a deep block: the nonce is used
		return dlt.NotCommitted, nil
	case batch.ReportedValid:
		return dlt.InFlight, nil
	}
	// A pool may show a transaction that a deep block has overtaken.
	proof, err := c.whoUsed(ctx, opResolve, e, p.sender, p.txs[0].Nonce, unknownHeight, p.hashes)
	if err != nil {
		return dlt.CannotTell, err
	}
	return evidenceBy[proof.by], nil
}

// user says who used a nonce.
type user uint8

const (
	byNobody  user = iota // in no deep block
	byOurs                // a receipt will say so
	byAnother             // for good
	bySomeone             // in a deep block, and the node does not show the user
)

var evidenceBy = map[user]dlt.Evidence{
	byNobody: dlt.InFlight, byOurs: dlt.InFlight, byAnother: dlt.NotCommitted, bySomeone: dlt.CannotTell,
}

// usage is a finding about a nonce.
type usage struct {
	by    user
	block block
	hash  string // of the other transaction; "" where an authorization used the nonce (EIP-7702)
}

func (u usage) text(nonce uint64) string {
	if u.hash == "" {
		return fmt.Sprintf("nonce %d was used by an authorization in block %d", nonce, u.block.number)
	}
	return fmt.Sprintf("nonce %d was used by transaction %s in block %d", nonce, u.hash, u.block.number)
}

// whoUsed finds out which transaction used an account's nonce, up to the last deep block. What is not
// there proves nothing, neither a receipt nor a transaction in a block's list: another node may answer each
// question, and some have headers and state without the list. A finding is always a transaction, or an
// authorization of the account, that stands in a block. free is a height at which the nonce was free, of a block that is never taken back: a node that no
// longer has the state of that time still has the blocks.
func (c *Client) whoUsed(ctx context.Context, op string, e *endpoint, sender evmtx.Address, nonce, free uint64, ours []evmtx.Hash) (usage, error) {
	v, _, err := c.look(ctx, op, e, nil)
	if err != nil || v.none {
		return usage{}, err
	}
	f := finder{Client: c, op: op, e: e, sender: sender, nonce: nonce, ours: ours}
	count, err := f.countAt(ctx, v.deep.number)
	switch {
	case err != nil:
		return usage{}, err
	case count <= nonce:
		return usage{by: byNobody}, nil
	}
	height, err := f.heightOf(ctx, v.deep.number)
	if errors.Is(err, errNoState) {
		var found bool
		height, found, err = f.heightByName(ctx)
		if found = found && v.isDeep(height); err == nil && !found && free != unknownHeight {
			height, found, err = f.search(ctx, free, v.deep.number)
		}
		if err == nil && !found {
			return usage{by: bySomeone}, nil
		}
	}
	if err != nil {
		return usage{}, err
	}
	u, err := f.read(ctx, height)
	if err == nil && u.by == byAnother {
		err = f.standsOn(ctx, v, u.block)
	}
	if err != nil {
		return usage{}, err
	}
	return u, nil
}

// unknownHeight: nobody has written down when the nonce was free.
const unknownHeight = math.MaxUint64

// finder looks for the block that used a nonce.
type finder struct {
	*Client
	op     string
	e      *endpoint
	sender evmtx.Address
	nonce  uint64
	ours   []evmtx.Hash
}

func (f *finder) one(ctx context.Context, method string, params ...any) (answer, error) {
	answers, err := f.ask(ctx, f.op, f.e, []request{{method, params}})
	if err != nil {
		return answer{}, dlt.At(f.e.shown, f.typed(f.op, err))
	}
	return answers[0], nil
}

func (f *finder) fail(format string, args ...any) error {
	return &dlt.Error{Op: f.op, Kind: dlt.ErrDoubt, Endpoint: f.e.shown, Message: f.show(fmt.Sprintf(format, args...))}
}

// countAt returns the account's next nonce after a block. Deep blocks have one hash, so their
// number names them.
func (f *finder) countAt(ctx context.Context, height uint64) (uint64, error) {
	a, err := f.one(ctx, "eth_getTransactionCount", f.sender.String(), hexQuantity(height))
	if err != nil {
		return 0, err
	}
	return f.countOf(a, height)
}

// countOf reads the answer to a question for a next nonce after a block.
func (f *finder) countOf(a answer, height uint64) (uint64, error) {
	if a.err != nil && classify(a.err) != classBusy {
		return 0, fmt.Errorf("%w: %w", errNoState, f.fail("next nonce after block %d: %s", height, a.err.Message))
	}
	n, err := number(a)
	if err != nil {
		return 0, f.fail("next nonce after block %d: %v", height, err)
	}
	return n, nil
}

// errNoState: a node says that it cannot tell an account's nonce after a block. Many keep the state
// of the last 128 only.
var errNoState = errors.New("no state of that block")

// heightOf returns the height at which the nonce was used, which is at most high. It goes back in
// growing steps, because nodes keep the state of the last blocks only, and then halves the rest.
func (f *finder) heightOf(ctx context.Context, high uint64) (uint64, error) {
	low, step := high, uint64(1)
	for low > 0 { // block 0 executes nothing
		next := low - min(low, step)
		count, err := f.countAt(ctx, next)
		if errors.Is(err, errNoState) && step > 1 {
			step /= 2
			continue
		}
		if err != nil {
			return 0, err
		}
		low = next
		if count <= f.nonce {
			break
		}
		high, step = next, step*2
	}
	for high-low > 1 { // used after low, and not after high
		middle := low + (high-low)/2
		count, err := f.countAt(ctx, middle)
		if err != nil {
			return 0, err
		}
		if count > f.nonce {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}

// heightByName asks for the transaction of the sender and nonce, which some nodes can answer.
func (f *finder) heightByName(ctx context.Context) (height uint64, found bool, err error) {
	a, err := f.one(ctx, "eth_getTransactionBySenderAndNonce", f.sender.String(), hexQuantity(f.nonce))
	if err != nil {
		if k := dlt.Kind(err); k == batch.KindBusy || k == batch.KindUnavailable {
			return 0, false, err
		}
		return 0, false, ctx.Err() // a proxy that does not list the method refuses it under any status
	}
	if !a.there() || a.isNull() {
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

// read reads the whole block at a height and says who used the nonce there.
func (f *finder) read(ctx context.Context, height uint64) (usage, error) {
	a, err := f.one(ctx, "eth_getBlockByNumber", hexQuantity(height), true)
	if err != nil {
		return usage{}, err
	}
	u, found, err := f.userIn(a, height)
	if err != nil || found {
		return u, err
	}
	if err := f.agrees(ctx, u.block); err != nil {
		return usage{}, err
	}
	if !f.authorized(a) {
		u.by = bySomeone
	}
	return u, nil
}

// userIn reads the whole block at a height. found means that a transaction in it used the nonce.
func (f *finder) userIn(a answer, height uint64) (u usage, found bool, err error) {
	b, err := decodeBlock(a)
	if err != nil {
		return usage{}, false, f.fail("block %d: %v", height, err)
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
		return usage{}, false, f.fail("block %d: %v", height, err)
	}
	if doc.Transactions == nil { // not an empty list, which is one
		return usage{}, false, f.fail("block %d: the node leaves out its transactions", height)
	}
	if b.number != height {
		return usage{}, false, f.fail("block %d: the node answers with block %d", height, b.number)
	}
	u = usage{by: byAnother, block: b}
	for _, tx := range doc.Transactions {
		hash, ok := evmtx.ParseHash(tx.Hash)
		if ok && slices.Contains(f.ours, hash) {
			return usage{by: byOurs, block: b}, true, nil
		}
		nonce, err := quantity(tx.Nonce)
		from, bad := evmtx.ParseAddress(tx.From)
		if err != nil || bad != nil || !ok {
			return usage{}, false, f.fail("block %d: a transaction without hash, sender or nonce", height)
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

// usesNonce reports whether a transaction of a type uses up the nonce that a block shows for it. Other types,
// as Arbitrum's deposits, show an account and a nonce that they do not use.
func usesNonce(kind json.RawMessage) bool {
	n, err := quantity(kind)
	return err == nil && (n <= lastNonceType || n == depositType)
}

const (
	lastNonceType = 4    // EIP-7702; the types from 0 on use their nonces
	depositType   = 0x7e // Optimism's
)

// searchAtOnce is how many blocks one question reads.
const searchAtOnce = 32

// search reads the blocks after a height, up to the last deep one, and returns the height of the block
// that used the nonce. It reads some in each call, and goes on where it ended: deep blocks stay. It passes over
// blocks that the node does not have, as old ones that it has removed: only what stands in a block is a proof.
// At the end it begins anew where it has passed over some, since another node may have them.
func (f *finder) search(ctx context.Context, free, deep uint64) (height uint64, found bool, err error) {
	from := f.searched.after(f.sender, f.nonce, free) + 1
	last := min(deep, from+searchAtOnce-1)
	var reqs []request
	for h := from; h <= last; h++ {
		reqs = append(reqs, request{"eth_getBlockByNumber", []any{hexQuantity(h), true}})
	}
	for len(reqs) > 0 { // a few at a time: whole blocks are large
		part := reqs[:min(len(reqs), searchArray)]
		answers, err := f.ask(ctx, f.op, f.e, part)
		if err != nil {
			return 0, false, dlt.At(f.e.shown, f.typed(f.op, err))
		}
		for _, a := range answers {
			if !a.isNull() {
				if _, found, err = f.userIn(a, from); err != nil || found {
					return from, found, err
				}
			}
			f.searched.reach(f.sender, f.nonce, from, a.isNull())
			from++
		}
		reqs = reqs[len(part):]
	}
	if from > deep {
		f.searched.again(f.sender, f.nonce)
	}
	return 0, false, nil
}

const searchArray = 8

// searched remembers up to which height the blocks were read for who used a nonce.
type searched struct {
	mu sync.Mutex
	by map[searchedFor]reached
}

type reached struct {
	height uint64
	gaps   bool // blocks below were missing
}

type searchedFor struct {
	sender evmtx.Address
	nonce  uint64
}

// after returns the last height that was read, and that is no lower than the given one.
func (s *searched) after(a evmtx.Address, nonce, height uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(height, s.by[searchedFor{a, nonce}].height)
}

func (s *searched) reach(a evmtx.Address, nonce, height uint64, gap bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxNonces {
		s.by = map[searchedFor]reached{}
	}
	key := searchedFor{a, nonce}
	s.by[key] = reached{height, gap || s.by[key].gaps}
}

// again forgets the height where blocks were missing.
func (s *searched) again(a evmtx.Address, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := (searchedFor{a, nonce}); s.by[key].gaps {
		delete(s.by, key)
	}
}

// agrees makes sure that a block without the transaction used the nonce all the same, by both counts of
// one chain.
func (f *finder) agrees(ctx context.Context, b block) error {
	if b.number == 0 {
		return f.fail("block 0 used nonce %d", f.nonce)
	}
	before, err := f.countAt(ctx, b.number-1)
	if err != nil {
		return err
	}
	a, err := f.one(ctx, "eth_getTransactionCount", f.sender.String(), map[string]any{"blockHash": b.hash.String(), "requireCanonical": true})
	if err != nil {
		return err
	}
	after, err := number(a)
	if err != nil || before > f.nonce || after <= f.nonce {
		return f.fail("nonce %d, between blocks %d and %d: %v", f.nonce, b.number-1, b.number, errors.Join(err, fmt.Errorf("counts %d and %d", before, after)))
	}
	return nil
}

// authorized reports whether a block shows an authorization of the account that uses up the nonce
// (EIP-7702). A block without one proves nothing: its list may be missing, or code of the account has used
// the nonce for a contract.
func (f *finder) authorized(a answer) bool {
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
