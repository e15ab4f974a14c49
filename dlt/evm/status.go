package evm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// maxIDs is the largest number of ids in one query: each is two questions in an array, and a
// third for its block.
const maxIDs = 50

const opStatuses = "batch statuses"

// BatchStatuses implements [dlt.BatchStatusReader]. It first fixes the node's head and the last
// deep block, and then compares everything with them: Committed and Invalid (reverted) mean a
// receipt in a deep block, Valid a receipt in a later one, Pending a transaction in the node's
// pool, and Unknown none of it. Of [Alternatives] it looks for each, sent or not, from the first
// Prepare on; Stalled means that none is in a block, the last one that was sent has waited for
// Options.BumpAfter blocks or no longer pays the base fee, and a higher one does. It also means that
// one waits so long for another nonce of its account, which can be sent again only
// once nothing behind it is under way. Answers that contradict each other are left out. An id that is
// not a hash has no answer, and neither have kept bytes that this client cannot read. Errors are [*dlt.Error]s; the answers beside an error are good.
func (c *Client) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	var all []asked
	seen := make(map[batch.ID]struct{}, len(attempts))
	for _, a := range attempts {
		h, ok := evmtx.ParseHash(string(a.ID))
		if _, twice := seen[a.ID]; !ok || twice || h.String() != string(a.ID) {
			continue
		}
		seen[a.ID] = struct{}{}
		one := asked{id: a.ID, account: string(a.Service), hashes: []evmtx.Hash{h}}
		if len(a.Prepared) > 0 {
			s, err := decodeList(a.Prepared)
			if err != nil {
				continue // no error either: the others have theirs, and this one's lack of an answer calls a person
			}
			one.hashes, one.slot = s.hashes(), s
		}
		all = append(all, one)
	}
	return c.lookFor(ctx, all, c.waits)
}

// waits finishes the statuses of alternatives that are in no block.
func (c *Client) waits(_ context.Context, _ *endpoint, p *picture, all []*open) error {
	for _, o := range all {
		s := o.slot
		latest, ok := p.next[count{o.account, "latest"}]
		if s == nil || o.st.Reported != batch.ReportedPending || !ok || latest > s.nonce || !s.stalled(p.head, c.o.BumpAfter) {
			continue
		}
		_, higher := s.above(s.turn()+1, p.head)
		switch {
		case higher, latest < s.nonce && s.mayTurn():
			o.st.Reported = batch.ReportedStalled
		case s.turn() == len(s.entries)-1:
			o.st.Message += fmt.Sprintf("; it is the last of %d alternatives", len(s.entries))
		default:
			o.st.Message += fmt.Sprintf("; the highest of %d alternatives pays at most %s gwei", len(s.entries), gwei(s.maxFee))
		}
	}
	return nil
}

// asked is a batch that is asked about: transactions of an account, of which at most one is executed.
type asked struct {
	id      batch.ID
	account string
	hashes  []evmtx.Hash
	slot    *slot // nil where nothing is kept
}

// open is a batch with its status so far.
type open struct {
	asked
	st batch.Status
}

// finisher finishes the statuses of batches that are in no block. A status of the zero value is no answer.
type finisher func(ctx context.Context, e *endpoint, p *picture, all []*open) error

// lookFor asks about batches, at most maxIDs transactions at a time. It begins anywhere: where the time is
// not enough for all, no batch is always among the last. The answers beside an error, which is the first
// one, are good.
func (c *Client) lookFor(ctx context.Context, all []asked, finish finisher) (out []batch.Status, first error) {
	if len(all) > 0 {
		i := rand.IntN(len(all))
		all = slices.Concat(all[i:], all[:i])
	}
	for len(all) > 0 {
		n, size := 0, 0
		for n < len(all) && (n == 0 || size+len(all[n].hashes) <= maxIDs) {
			size += len(all[n].hashes)
			n++
		}
		statuses, err := c.askInTurn(ctx, all[:n], finish)
		if out = append(out, statuses...); err != nil && first == nil {
			first = err
		}
		all = all[n:]
	}
	return out, first
}

// askInTurn asks the nodes until one answers.
func (c *Client) askInTurn(ctx context.Context, all []asked, finish finisher) (out []batch.Status, err error) {
	for _, e := range c.inTurn() {
		if out, err = c.statuses(ctx, e, all, finish); len(out) > 0 || err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// statuses asks one node.
func (c *Client) statuses(ctx context.Context, e *endpoint, all []asked, finish finisher) (out []batch.Status, err error) {
	p, err := c.pictured(ctx, e, all)
	if p == nil {
		return nil, err
	}
	var found, waiting []*open
	first := 0
	for _, one := range all {
		st, ok := p.together(first, len(one.hashes))
		first += len(one.hashes)
		if !ok {
			continue
		}
		o := &open{one, st}
		found = append(found, o)
		if st.Reported == batch.ReportedPending || st.Reported == batch.ReportedUnknown {
			waiting = append(waiting, o)
		}
	}
	if finish != nil {
		if failed := finish(ctx, e, p, waiting); err == nil {
			err = failed
		}
	}
	for _, o := range found {
		if o.st.Reported != 0 {
			o.st.ID = o.id
			out = append(out, o.st)
		}
	}
	return out, err
}

// pictured asks one node. Beside an error the picture has the answers that came; without a view
// there is none.
func (c *Client) pictured(ctx context.Context, e *endpoint, all []asked) (*picture, error) {
	p := &picture{ancestry: &c.ancestry, canonical: map[uint64]evmtx.Hash{}, next: map[count]uint64{}}
	for _, one := range all {
		for _, h := range one.hashes {
			p.hashes, p.accounts, p.rises = append(p.hashes, h), append(p.accounts, one.account), append(p.rises, one.slot != nil && one.slot.turns != nil)
		}
	}
	p.known, p.pooled = make([]known, len(p.hashes)), make([]*pooled, len(p.hashes))
	p.receipts = c.mined.of(p.hashes)
	first, heights := p.first()
	v, answers, err := c.look(ctx, opStatuses, e, first)
	if err != nil {
		return nil, err
	}
	v.settled = c.settle(v)
	p.view = v
	errs := []error{p.takeBlocks(answers, heights)}
	for _, h := range p.undone() {
		c.mined.forget(h)
	}
	errs = append(errs, p.takeReceipts(answers[len(heights):]))
	// What the first answers leave open: whether a deep receipt's block is on the chain of the view,
	// and whether the pool has the transactions without receipts, and can mine them.
	more, heights, counts := p.rest()
	answers, err = c.ask(ctx, opStatuses, e, more)
	if err != nil {
		errs = append(errs, c.typed(opStatuses, err))
	} else {
		errs = append(errs, p.takeBlocks(answers, heights), p.takeNext(answers[len(heights):], counts), p.takeKnown(answers[len(heights)+len(counts):]))
	}
	c.remember(p)
	if err := errors.Join(errs...); err != nil {
		if _, ok := errors.AsType[*dlt.Error](err); !ok {
			err = &dlt.Error{Op: opStatuses, Kind: dlt.ErrDoubt, Err: c.cause(err)}
		}
		return p, dlt.At(e.shown, err)
	}
	return p, nil
}

// remember remembers the receipts of blocks that are not deep yet.
func (c *Client) remember(p *picture) {
	for i, r := range p.receipts {
		switch {
		case r == nil:
		case p.isDeep(r.block.number):
			c.mined.forget(r.hash)
		case !p.old[i]:
			c.mined.remember(r)
		}
	}
}

// known is a node's answer about a transaction by its hash.
type known uint8

const (
	unasked known = iota
	nowhere
	inPool
	inBlock // which a receipt should have said
)

// picture holds a node's answers about some transactions, compared with one view.
type picture struct {
	view
	ancestry  *ancestry
	hashes    []evmtx.Hash
	accounts  []string
	rises     []bool // it may be replaced
	answered  []bool
	receipts  []*receipt // nil where the node has none
	old       []bool     // the receipt is remembered, and only its block was asked for
	known     []known
	pooled    []*pooled
	canonical map[uint64]evmtx.Hash // the blocks of the view's chain by height
	next      map[count]uint64
}

// count is the question for an account's next nonce: after the last block ("latest"), or after all
// that the pool can mine ("pending").
type count struct{ account, tag string }

// first returns the first questions: the heights whose blocks it returns, those of the receipts that
// are remembered, and then all other receipts.
func (p *picture) first() (reqs []request, heights []uint64) {
	p.old, p.answered = make([]bool, len(p.hashes)), make([]bool, len(p.hashes))
	for i, r := range p.receipts {
		if r == nil {
			continue
		}
		p.old[i], p.answered[i] = true, true
		reqs, heights = p.blockAt(r.block.number, reqs, heights)
	}
	for i, h := range p.hashes {
		if !p.old[i] {
			reqs = append(reqs, request{"eth_getTransactionReceipt", []any{h.String()}})
		}
	}
	return reqs, heights
}

// blockAt adds a question for the block at a height, once.
func (p *picture) blockAt(height uint64, reqs []request, heights []uint64) ([]request, []uint64) {
	if _, have := p.canonical[height]; have {
		return reqs, heights
	}
	p.canonical[height] = evmtx.Hash{}
	return append(reqs, blockRequest(height)), append(heights, height)
}

// undone leaves receipts that are remembered without an answer where their block was not shown, and
// returns their transactions.
func (p *picture) undone() (gone []evmtx.Hash) {
	for i, r := range p.receipts {
		if r == nil || p.canonical[r.block.number] == r.block.hash {
			continue
		}
		gone = append(gone, p.hashes[i])
		p.receipts[i], p.answered[i] = nil, false
	}
	return gone
}

// takeReceipts reads the answers about receipts. An error leaves its transaction without a status.
func (p *picture) takeReceipts(answers []answer) error {
	var errs []error
	for i := range p.hashes {
		if p.old[i] {
			continue
		}
		a := answers[0]
		answers = answers[1:]
		r, err := readReceipt(a)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("receipt of %s: %w", p.hashes[i], err))
		case r != nil && r.hash != p.hashes[i]:
			// Another's: no answer.
		default:
			p.receipts[i], p.answered[i] = r, a.there()
		}
	}
	return errors.Join(errs...)
}

// rest returns the questions that are left: first the heights whose blocks it returns, then the
// next nonces of accounts of transactions without a receipt, and then these transactions, in their order.
func (p *picture) rest() (reqs []request, heights []uint64, counts []count) {
	p.canonical[p.head.number] = p.head.hash
	if p.deep.hash != (evmtx.Hash{}) {
		p.canonical[p.deep.number] = p.deep.hash
	}
	for _, r := range p.receipts {
		if r != nil && p.isDeep(r.block.number) {
			reqs, heights = p.blockAt(r.block.number, reqs, heights)
			for low, high := p.ancestry.missing(p.view, r.block.number); low <= high; low++ {
				reqs, heights = p.blockAt(low, reqs, heights)
			}
		}
	}
	var open []request
	for i, r := range p.receipts {
		if r != nil || !p.answered[i] {
			continue
		}
		open = append(open, request{"eth_getTransactionByHash", []any{p.hashes[i].String()}})
		if _, bad := evmtx.ParseAddress(p.accounts[i]); bad != nil {
			continue
		}
		for _, tag := range [...]string{"pending", "latest"} {
			if c := (count{p.accounts[i], tag}); (tag == "pending" || p.rises[i]) && !slices.Contains(counts, c) {
				counts = append(counts, c)
				reqs = append(reqs, request{"eth_getTransactionCount", []any{c.account, c.tag}})
			}
		}
	}
	return append(reqs, open...), heights, counts
}

// takeBlocks reads the first answers, about the blocks at some heights. A node that is behind has none
// yet where nothing is deep.
func (p *picture) takeBlocks(answers []answer, heights []uint64) error {
	var errs []error
	for i, h := range heights {
		b, err := decodeBlock(answers[i])
		switch {
		case answers[i].isNull() && !p.isDeep(h):
		case err != nil:
			errs = append(errs, fmt.Errorf("block %d: %w", h, err))
		case b.number == h:
			p.canonical[h] = b.hash
			if p.linked {
				p.ancestry.remember(b)
			}
		}
	}
	return errors.Join(errs...)
}

// takeNext reads the first answers, about the next nonces of accounts.
func (p *picture) takeNext(answers []answer, counts []count) error {
	var errs []error
	for i, c := range counts {
		n, err := number(answers[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("next nonce of %s: %w", c.account, err))
			continue
		}
		p.next[c] = n
	}
	return errors.Join(errs...)
}

// gapped reports whether a transaction of the pool waits behind a nonce that nobody has sent, or that
// was lost: no block can have it before.
func (p *picture) gapped(i int) bool {
	nonce, err := quantity(p.pooled[i].Nonce)
	next, asked := p.next[count{p.accounts[i], "pending"}]
	return err == nil && asked && nonce > next
}

// heldBack reports whether a transaction of the pool has the nonce that the pool counts as the next one to
// come: so the pool does not count this one among those that it gives to a block. A node that took the
// transaction while it made a block may keep it so for ever, and has no use for the same bytes again.
func (p *picture) heldBack(i int) bool {
	nonce, err := quantity(p.pooled[i].Nonce)
	next, asked := p.next[count{p.accounts[i], "pending"}]
	return err == nil && asked && nonce == next
}

// takeKnown reads the answers about transactions without a receipt.
func (p *picture) takeKnown(answers []answer) error {
	var errs []error
	for i, r := range p.receipts {
		if r != nil || !p.answered[i] {
			continue
		}
		var err error
		if p.known[i], p.pooled[i], err = readKnown(answers[0], p.hashes[i]); err != nil {
			errs = append(errs, fmt.Errorf("transaction %s: %w", p.hashes[i], err))
		}
		answers = answers[1:]
	}
	return errors.Join(errs...)
}

// pooled is a transaction that waits in a node's pool.
type pooled struct {
	Hash   string          `json:"hash"`
	Block  *string         `json:"blockHash"`
	Nonce  json.RawMessage `json:"nonce"`
	FeeCap string          `json:"maxFeePerGas"`
	Price  string          `json:"gasPrice"` // of types 0 and 1
}

func readKnown(a answer, hash evmtx.Hash) (known, *pooled, error) {
	switch {
	case a.err != nil:
		return unasked, nil, errors.New(a.err.Message)
	case !a.there():
		return unasked, nil, nil
	case a.isNull():
		return nowhere, nil, nil
	}
	var doc pooled
	if err := json.Unmarshal(a.result, &doc); err != nil {
		return unasked, nil, err
	}
	switch {
	case doc.Hash != hash.String():
		return unasked, nil, nil
	case doc.Block != nil && !isZero(*doc.Block):
		return inBlock, nil, nil
	}
	return inPool, &doc, nil
}

// isZero reports whether a block's hash is zero, as some nodes write null for a transaction in their pool.
func isZero(hash string) bool {
	h, ok := evmtx.ParseHash(hash)
	return ok && h == evmtx.Hash{}
}

// waitsFor says in words what keeps a transaction waiting, as far as the node shows it.
func (t *pooled) waitsFor(head block, heldBack bool) string {
	nonce, err := quantity(t.Nonce)
	limit := hexBig(cmp.Or(t.FeeCap, t.Price))
	if err != nil || limit == nil {
		return ""
	}
	text := fmt.Sprintf("nonce %d, at most %s gwei for a unit of gas", nonce, gwei(limit))
	if head.baseFee != nil {
		text += fmt.Sprintf("; the base fee of block %d is %s gwei", head.number, gwei(head.baseFee))
	}
	if heldBack {
		text += "; the node holds it back from its blocks, though no nonce is missing before it"
	}
	return text
}

// gwei returns a number of wei in gwei.
func gwei(wei *big.Int) string {
	text := new(big.Rat).SetFrac(wei, big.NewInt(1e9)).FloatString(9)
	return batch.Excerpt(strings.TrimRight(strings.TrimRight(text, "0"), "."), 80)
}

// together is the status of some transactions of one nonce, of which one takes effect at most. A
// transaction without an answer leaves it open, unless another one was executed. It is pure.
func (p *picture) together(first, n int) (best batch.Status, ok bool) {
	rank := func(r batch.Reported) int {
		switch r {
		case batch.ReportedCommitted, batch.ReportedInvalid:
			return 3
		case batch.ReportedValid:
			return 2
		case batch.ReportedPending:
			return 1
		}
		return 0
	}
	ok = true
	for i := first; i < first+n; i++ {
		st, answered := p.status(i)
		if ok = ok && answered; answered && (best.Reported == 0 || rank(st.Reported) >= rank(best.Reported)) {
			best = st
		}
	}
	return best, ok || rank(best.Reported) == 3
}

func (p *picture) status(i int) (batch.Status, bool) {
	r := p.receipts[i]
	switch {
	case r != nil && p.isBehind(r.block.number):
		return batch.Status{}, false // neither deep nor taken back: ask again
	case r != nil && !p.isDeep(r.block.number):
		return batch.Status{Reported: batch.ReportedValid}, true
	case r != nil && (p.canonical[r.block.number] != r.block.hash || !p.ancestry.stands(p.view, r.block)):
		return batch.Status{}, false // of another chain than the view: ask again
	case r != nil && r.reverted:
		return batch.Status{Reported: batch.ReportedInvalid, Receipts: []batch.Receipt{r.asBatch()}, Message: r.reason()}, true
	case r != nil:
		return batch.Status{Reported: batch.ReportedCommitted, Receipts: []batch.Receipt{r.asBatch()}}, true
	case p.known[i] == inPool && p.gapped(i):
		// What is missing before it may be a batch of its lane that was lost. That is sent again only
		// once nothing behind it is under way.
		return batch.Status{Reported: batch.ReportedUnknown}, true
	case p.known[i] == inPool:
		return batch.Status{Reported: batch.ReportedPending, Message: p.pooled[i].waitsFor(p.head, p.heldBack(i))}, true
	case p.known[i] == nowhere:
		return batch.Status{Reported: batch.ReportedUnknown}, true
	}
	return batch.Status{}, false
}
