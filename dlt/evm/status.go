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
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// maxIDs is the largest number of ids in one query. Each id means two questions in an array, and a
// third for its block.
const maxIDs = 50

const opStatuses = "batch statuses"

// BatchStatuses implements [dlt.BatchStatusReader]. It first fixes the node's head and the last
// deep block, and then compares everything with them: Committed and Invalid (reverted) mean a
// receipt in a deep block, Valid a receipt in a later one, Pending a transaction in the node's
// pool, and Unknown none of it. Of [Alternatives] it looks for each, sent or not, from the first
// Prepare on; Stalled means that none is in a block, the last one that was sent has waited for
// Options.BumpAfter blocks or no longer pays the base fee, and a higher one does. It also means
// that one waits so long for another nonce of its account, which can be sent again only
// once nothing behind it is under way. Answers that contradict each other are left out. An id that
// is not a hash has no answer, and neither have kept bytes that this client cannot read. Errors
// are [*dlt.Error]s; the answers that come with an error are good.
func (c *Client) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	var all []batchQuestion
	seen := make(map[batch.ID]struct{}, len(attempts))
	for _, a := range attempts {
		h, ok := evmtx.ParseHash(string(a.ID))
		if _, twice := seen[a.ID]; !ok || twice || h.String() != string(a.ID) {
			continue
		}
		seen[a.ID] = struct{}{}
		one := batchQuestion{id: a.ID, account: string(a.Service), hashes: []evmtx.Hash{h}}
		if len(a.Prepared) > 0 {
			s, err := decodeList(a.Prepared)
			if err != nil {
				continue // without an error, which would concern the others; a batch without an answer is reported to a person
			}
			one.hashes, one.slot = s.hashes(), s
		}
		all = append(all, one)
	}
	return c.askStatuses(ctx, all, c.finishAlternatives)
}

// finishAlternatives completes the statuses of batches with alternatives. It reports a batch whose
// last alternative is stalled as stalled if another alternative, or another permission of the last
// one, may be sent, and otherwise adds the reason to the message.
func (c *Client) finishAlternatives(_ context.Context, _ *endpoint, p *nodeAnswers, all []*openBatch) error {
	for _, o := range all {
		s := o.slot
		latest, ok := p.nextNonces[nonceQuestion{o.account, "latest"}]
		if s == nil || o.status.Reported != batch.ReportedPending || !ok || latest > s.nonce || !s.isStalled(p.head, c.options.BumpAfter) {
			continue
		}
		_, higher := s.firstPaying(s.lastAllowedIndex()+1, p.head)
		switch {
		case higher, latest < s.nonce && s.hasRoomForPermission():
			o.status.Reported = batch.ReportedStalled
		case s.lastAllowedIndex() == len(s.entries)-1:
			o.status.Message += fmt.Sprintf("; it is the last of %d alternatives", len(s.entries))
		default:
			o.status.Message += fmt.Sprintf("; the highest of %d alternatives pays at most %s gwei", len(s.entries), gwei(s.maxFee))
		}
	}
	return nil
}

// batchQuestion is a batch that is asked about: its account and its transactions, of which at most
// one is executed.
type batchQuestion struct {
	id      batch.ID
	account string
	hashes  []evmtx.Hash
	slot    *slot // nil if nothing was prepared
	// isWithdrawn is true if the slot's nonce is to be closed.
	isWithdrawn bool
}

// openBatch is a batch with its status so far.
type openBatch struct {
	batchQuestion
	status batch.Status
	// isClosed is true if a block has the transaction that closes the nonce.
	isClosed bool
}

// finisher finishes the statuses of batches that are in no block, or whose answers contradict each
// other. A zero status is no answer.
type finisher func(ctx context.Context, e *endpoint, p *nodeAnswers, all []*openBatch) error

// askStatuses asks about batches, at most maxIDs transactions at a time. It begins with a random
// batch, so that no batch is always among the last when the time is not enough for all. The error
// is the first one; the answers that come with it are valid.
func (c *Client) askStatuses(ctx context.Context, all []batchQuestion, finish finisher) (out []batch.Status, first error) {
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
		statuses, err := c.askInTurn(ctx, all[:n], finish, len(out) > 0)
		if out = append(out, statuses...); err != nil && first == nil {
			first = err
		}
		all = all[n:]
	}
	return out, first
}

// askInTurn asks the nodes until one answers, and puts those aside that did not. more is true if a
// node has answered within the same time limit: then the limit was too short, and no node is at
// fault.
func (c *Client) askInTurn(ctx context.Context, all []batchQuestion, finish finisher, more bool) (out []batch.Status, err error) {
	more = more || ctx.Err() != nil // a time limit that had already passed is no node's fault either
	for _, e := range c.endpointsInTurn() {
		var some []batch.Status
		some, err = c.statusesFrom(ctx, e, all, finish)
		if out = append(out, some...); err == nil {
			break
		}
		if len(some) > 0 { // the node has answered: the error is about the other batches
			all, more = withoutAnswered(all, some), true
			if len(all) == 0 || ctx.Err() != nil {
				break
			}
			continue
		}
		if isEndpointsFault(ctx, err) && !(more && ctx.Err() != nil) {
			c.putAside(e, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// withoutAnswered returns the batches without a status.
func withoutAnswered(all []batchQuestion, statuses []batch.Status) (rest []batchQuestion) {
	for _, one := range all {
		if !slices.ContainsFunc(statuses, func(st batch.Status) bool { return st.ID == one.id }) {
			rest = append(rest, one)
		}
	}
	return rest
}

// statusesFrom asks one node for the statuses.
func (c *Client) statusesFrom(ctx context.Context, e *endpoint, all []batchQuestion, finish finisher) (out []batch.Status, err error) {
	p, err := c.askNode(ctx, e, all)
	if p == nil {
		return nil, err
	}
	var found, waiting []*openBatch
	first := 0
	for _, one := range all {
		st, closed, ok := p.statusOfSlot(first, one)
		first += len(one.hashes)
		if !ok {
			st = batch.Status{}
		}
		o := &openBatch{one, st, closed}
		found = append(found, o)
		if !ok && one.slot != nil || st.Reported == batch.ReportedPending || st.Reported == batch.ReportedUnknown {
			waiting = append(waiting, o)
		}
	}
	if finish != nil {
		if failed := finish(ctx, e, p, waiting); err == nil {
			err = failed
		}
	}
	for _, o := range found {
		if o.status.Reported != 0 {
			o.status.ID = o.id
			out = append(out, o.status)
		}
	}
	return out, err
}

// askNode asks one node about batches. Together with an error it returns the answers that came, or
// nil if the view is missing.
func (c *Client) askNode(ctx context.Context, e *endpoint, all []batchQuestion) (*nodeAnswers, error) {
	p := &nodeAnswers{canonicalHashes: map[uint64]evmtx.Hash{}, nextNonces: map[nonceQuestion]uint64{}, beganAt: time.Now()}
	for _, one := range all {
		for _, h := range one.hashes {
			p.hashes, p.accounts, p.mayRise = append(p.hashes, h), append(p.accounts, one.account), append(p.mayRise, one.slot != nil)
			p.isSingle = append(p.isSingle, one.slot == nil)
		}
	}
	n := len(p.hashes)
	p.lookups, p.pooledTxs, p.isAnswered, p.isRemembered = make([]lookupState, n), make([]*pooledTx, n), make([]bool, n), make([]bool, n)
	p.receipts = c.receipts.receiptsOf(p.hashes)
	p.sightings = e.recentBlocks.sightingsOf(p.hashes, p.beganAt, c.options.Grace/sightingShare)
	first, asked := p.firstQuestions()
	v, answers, err := c.askView(ctx, opStatuses, e, first)
	if err != nil {
		return nil, err
	}
	v.highestDeep = c.highestDeep.update(v, false)
	p.view, p.descent = v, blockDescent{linkedBlocks: v.linkedBlocks}
	errs := []error{p.addReceipts(answers, asked)}
	if err := c.followBlocks(ctx, e, p); err != nil {
		errs = append(errs, c.asLedgerError(opStatuses, err))
	}
	// The second questions are those that the first answers leave open: whether the block of a
	// receipt is on the view's chain, the receipts of transactions that its blocks list, and
	// whether the pool has the transactions without receipts and can mine them.
	r := p.restQuestions()
	if answers, err = c.ask(ctx, opStatuses, e, r.requests()); err != nil {
		errs = append(errs, c.asLedgerError(opStatuses, err))
	} else {
		errs = append(errs, p.addRemaining(r, answers))
		errs = append(errs, c.linkReceipts(ctx, e, p))
	}
	for _, h := range p.dropUnproved() {
		if err == nil { // else no question was asked about the receipt's block
			c.receipts.forget(h)
		}
	}
	c.remember(e, p)
	if err := errors.Join(errs...); err != nil {
		if _, ok := errors.AsType[*dlt.Error](err); !ok {
			err = &dlt.Error{Op: opStatuses, Kind: dlt.ErrDoubt, Err: c.shownError(err)}
		}
		return p, dlt.At(e.shownAddress, err)
	}
	return p, nil
}

// followBlocks finds out which blocks follow one another up to the view's head, and looks in them
// for transactions that the node has shown in its pool. It asks for at most a few blocks that were
// not read yet.
func (c *Client) followBlocks(ctx context.Context, e *endpoint, p *nodeAnswers) error {
	p.listedHead = e.recentBlocks.add(p.head, true)
	p.listedChain = e.recentBlocks.chainFrom(p.listedHead)
	var failed error
	if low := p.lowestSighting(); len(p.listedChain) > 0 && low < p.listedChain[len(p.listedChain)-1].number {
		top := p.listedChain[len(p.listedChain)-1].number - 1
		if known := e.recentBlocks.highestBelow(top); known != unknownHeight {
			low = max(low, known+1)
		}
		if low <= top && top-low < maxGapBlocks {
			var requests []request
			for h := low; h <= top; h++ {
				requests = append(requests, blockRequest(h))
			}
			var answers []answer
			answers, failed = c.ask(ctx, opStatuses, e, requests)
			for _, a := range answers {
				if b, err := decodeBlock(a); err == nil {
					e.recentBlocks.add(b, false)
				}
			}
			p.listedChain = e.recentBlocks.chainFrom(p.listedHead)
		}
	}
	for _, l := range p.listedChain {
		p.canonicalHashes[l.number] = l.hash
		p.linkedBlocks.addParent(block{number: l.number, hash: l.hash, parent: l.parent})
		if l.number > 0 {
			p.canonicalHashes[l.number-1] = l.parent
		}
	}
	for i, w := range p.sightings {
		if p.wasInPool(i) {
			if p.sightingStates[i] = w.findIn(p.listedChain, p.hashes[i]); p.sightingStates[i] != sightingAbsent {
				e.recentBlocks.forget(p.hashes[i])
			}
		}
	}
	return failed
}

// remember remembers the receipts of blocks that are not deep yet, and the transactions that the
// pool has just shown. It leaves out transactions that the pool cannot mine: they have a reason to
// wait, which may be gone at the next question.
func (c *Client) remember(e *endpoint, p *nodeAnswers) {
	for i, h := range p.hashes {
		if p.isSingle[i] && p.lookups[i] == lookupInPool && p.sightingStates[i] != sightingAbsent && !p.isBehindGap(i) && !p.isHeldBack(i) {
			e.recentBlocks.notePooled(h, sighting{p.beganAt, p.listedHead, p.pooledTxs[i]})
		}
	}
	for i, r := range p.receipts {
		switch {
		case r == nil:
		case p.isDeep(r.block.number):
			c.receipts.forget(r.hash)
		case !p.isRemembered[i]:
			c.receipts.remember(r)
		}
	}
}

// lookupState is a node's answer about a transaction by its hash.
type lookupState uint8

const (
	lookupUnasked lookupState = iota
	lookupNowhere
	lookupInPool
	lookupInBlock // a receipt should have said so
)

// nodeAnswers holds a node's answers about some transactions, compared with one view.
type nodeAnswers struct {
	view
	beganAt            time.Time
	hashes             []evmtx.Hash
	accounts           []string
	mayRise            []bool // the transaction may be replaced
	isSingle           []bool // the transaction is a batch by itself
	isAnswered         []bool
	receipts           []*receipt      // nil where the node has no receipt
	isRemembered       []bool          // the receipt is remembered, so only its block was asked for
	sightings          []sighting      // the transactions that the node's pool has shown before
	sightingStates     []sightingState // the states of the sightings
	listedHead         *listedBlock    // the head of the view; nil if its list is not known
	listedChain        []*listedBlock  // the blocks from listedHead downwards
	lookups            []lookupState
	pooledTxs          []*pooledTx
	canonicalHashes    map[uint64]evmtx.Hash // the blocks of the view's chain by height; above the deep block, as one node reports them
	descent            blockDescent          // the way down the view's linked blocks
	areLinksIncomplete bool                  // the first headers could not be linked
	nextNonces         map[nonceQuestion]uint64
}

// nonceQuestion is the question for an account's next nonce: after the last block ("latest"), or
// after all transactions that the pool can mine ("pending").
type nonceQuestion struct{ account, tag string }

// firstQuestions returns the first questions and, for each, the place of its transaction. They ask
// for receipts, except of transactions whose receipts are remembered or that the pool had a moment
// ago.
func (p *nodeAnswers) firstQuestions() (reqs []request, places []int) {
	p.sightingStates = make([]sightingState, len(p.hashes))
	for i, h := range p.hashes {
		if p.receipts[i] != nil {
			p.isRemembered[i], p.isAnswered[i] = true, true
		} else if !p.wasInPool(i) {
			reqs, places = append(reqs, receiptOf(h)), append(places, i)
		}
	}
	return reqs, places
}

func receiptOf(h evmtx.Hash) request { return request{"eth_getTransactionReceipt", []any{h.String()}} }

// wasInPool reports whether the pool had the transaction a moment ago.
func (p *nodeAnswers) wasInPool(i int) bool {
	return p.isSingle[i] && p.receipts[i] == nil && p.sightings[i].head != nil
}

// lowestSighting returns the lowest head at which the pool has shown one of the transactions.
func (p *nodeAnswers) lowestSighting() uint64 {
	low := uint64(unknownHeight)
	for i, w := range p.sightings {
		if p.wasInPool(i) {
			low = min(low, w.head.number)
		}
	}
	return low
}

// addBlockQuestion adds a question for the block at a height, unless there is one already.
func (p *nodeAnswers) addBlockQuestion(height uint64, reqs []request, heights []uint64) ([]request, []uint64) {
	if _, have := p.canonicalHashes[height]; have {
		return reqs, heights
	}
	p.canonicalHashes[height] = evmtx.Hash{}
	return append(reqs, blockRequest(height)), append(heights, height)
}

// dropUnproved removes remembered receipts whose block was not shown, or not linked, so that their
// transactions have no answer. It returns these transactions.
func (p *nodeAnswers) dropUnproved() (gone []evmtx.Hash) {
	for i, r := range p.receipts {
		if r == nil || !p.isRemembered[i] {
			continue
		}
		if p.isDeep(r.block.number) && p.linkedBlocks.has(r.block) || !p.isDeep(r.block.number) && p.canonicalHashes[r.block.number] == r.block.hash {
			continue
		}
		gone = append(gone, p.hashes[i])
		p.receipts[i], p.isAnswered[i] = nil, false
	}
	return gone
}

// addReceipts reads the answers with the receipts of the transactions at these places. An error
// leaves a transaction without a status.
func (p *nodeAnswers) addReceipts(answers []answer, places []int) error {
	var errs []error
	for n, i := range places {
		r, err := readReceipt(answers[n])
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("receipt of %s: %w", p.hashes[i], err))
		case r != nil && r.hash != p.hashes[i]:
			// The receipt is of another transaction, so it is no answer.
		default:
			p.receipts[i], p.isAnswered[i] = r, answers[n].hasResult()
		}
	}
	return errors.Join(errs...)
}

// remainingQuestions are the second questions, asked in the order of the fields.
type remainingQuestions struct {
	heights  []uint64 // heights of blocks
	links    []uint64 // heights of headers, which link a receipt's block to the view
	counts   []nonceQuestion
	receipts []int // places of transactions whose receipts are asked for
	lookups  []int // places of transactions that are looked up by hash
	reqs     [5][]request
}

func (r *remainingQuestions) requests() []request { return slices.Concat(r.reqs[:]...) }

// restQuestions returns the second questions: for blocks of receipts, for the next nonces of
// accounts whose transactions have no receipt, for receipts that were not asked for yet, and for
// transactions without a receipt.
func (p *nodeAnswers) restQuestions() (r remainingQuestions) {
	p.canonicalHashes[p.head.number] = p.head.hash
	for i, one := range p.receipts {
		if one != nil && p.isRemembered[i] && !p.isDeep(one.block.number) {
			r.reqs[0], r.heights = p.addBlockQuestion(one.block.number, r.reqs[0], r.heights)
		}
	}
	if lowest, deep := p.lowestDeepReceipt(); deep {
		r.links = p.descent.wantedHeights(lowest)
		for _, h := range r.links {
			r.reqs[4] = append(r.reqs[4], blockRequest(h))
		}
	}
	for i, h := range p.hashes {
		waits := p.wasInPool(i)
		switch {
		case waits && p.sightingStates[i] == sightingAbsent:
			p.lookups[i], p.pooledTxs[i], p.isAnswered[i] = lookupInPool, p.sightings[i].tx, true
			continue
		case waits:
			r.reqs[2], r.receipts = append(r.reqs[2], receiptOf(h)), append(r.receipts, i)
		case p.receipts[i] != nil:
			continue
		}
		if p.sightingStates[i] == sightingListed {
			continue // its receipt tells all
		}
		r.reqs[3], r.lookups = append(r.reqs[3], request{"eth_getTransactionByHash", []any{h.String()}}), append(r.lookups, i)
		if _, bad := evmtx.ParseAddress(p.accounts[i]); bad != nil {
			continue
		}
		for _, tag := range [...]string{"pending", "latest"} {
			if c := (nonceQuestion{p.accounts[i], tag}); (tag == "pending" || p.mayRise[i]) && !slices.Contains(r.counts, c) {
				r.reqs[1], r.counts = append(r.reqs[1], request{"eth_getTransactionCount", []any{c.account, c.tag}}), append(r.counts, c)
			}
		}
	}
	return r
}

// addRemaining reads the answers to the second questions.
func (p *nodeAnswers) addRemaining(r remainingQuestions, answers []answer) error {
	next := func(n int) (part []answer) {
		part, answers = answers[:n], answers[n:]
		return part
	}
	return errors.Join(p.addBlocks(next(len(r.heights)), r.heights), p.addNextNonces(next(len(r.counts)), r.counts),
		p.addReceipts(next(len(r.receipts)), r.receipts), p.addLookups(next(len(r.lookups)), r.lookups), p.addLinks(next(len(r.links))))
}

// addBlocks reads the answers with the blocks at these heights. While nothing is deep, a node
// that is behind may not have a block yet.
func (p *nodeAnswers) addBlocks(answers []answer, heights []uint64) error {
	var errs []error
	for i, h := range heights {
		b, err := decodeBlock(answers[i])
		switch {
		case answers[i].isNull() && !p.isDeep(h):
		case err != nil:
			errs = append(errs, fmt.Errorf("block %d: %w", h, err))
		case b.number == h:
			p.canonicalHashes[h] = b.hash
		}
	}
	return errors.Join(errs...)
}

// addNextNonces reads the answers with the next nonces of accounts.
func (p *nodeAnswers) addNextNonces(answers []answer, counts []nonceQuestion) error {
	var errs []error
	for i, c := range counts {
		n, err := decodeNumber(answers[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("next nonce of %s: %w", c.account, err))
			continue
		}
		p.nextNonces[c] = n
	}
	return errors.Join(errs...)
}

// isBehindGap reports whether a transaction of the pool waits for an earlier nonce that nobody has
// sent, or whose transaction was lost: no block can have it before that.
func (p *nodeAnswers) isBehindGap(i int) bool {
	nonce, err := decodeQuantity(p.pooledTxs[i].Nonce)
	next, asked := p.nextNonces[nonceQuestion{p.accounts[i], "pending"}]
	return err == nil && asked && nonce > next
}

// isHeldBack reports whether a transaction of the pool has the very nonce that the pool names as
// the account's next. The pool then does not count this transaction among those for the next
// block. A node that received the transaction while it made a block may hold it back so for ever,
// and ignores the same bytes when they are sent again.
func (p *nodeAnswers) isHeldBack(i int) bool {
	nonce, err := decodeQuantity(p.pooledTxs[i].Nonce)
	next, asked := p.nextNonces[nonceQuestion{p.accounts[i], "pending"}]
	return err == nil && asked && nonce == next
}

// addLookups reads the answers about the transactions at these places. A receipt says more than
// such an answer. If the answer about the receipt is missing, "the node has the transaction"
// counts, and "the node does not have it" does not.
func (p *nodeAnswers) addLookups(answers []answer, places []int) error {
	var errs []error
	for n, i := range places {
		if p.receipts[i] != nil {
			continue
		}
		var err error
		if p.lookups[i], p.pooledTxs[i], err = readLookup(answers[n], p.hashes[i]); err != nil {
			errs = append(errs, fmt.Errorf("transaction %s: %w", p.hashes[i], err))
		}
	}
	return errors.Join(errs...)
}

// pooledTx is a transaction that waits in a node's pool.
type pooledTx struct {
	Hash   string          `json:"hash"`
	Block  *string         `json:"blockHash"`
	Nonce  json.RawMessage `json:"nonce"`
	FeeCap string          `json:"maxFeePerGas"`
	Price  string          `json:"gasPrice"`         // set in transactions of type 0 and 1
	Blob   string          `json:"maxFeePerBlobGas"` // set in transactions of type 3
}

func readLookup(a answer, hash evmtx.Hash) (lookupState, *pooledTx, error) {
	switch {
	case a.err != nil:
		return lookupUnasked, nil, errors.New(a.err.Message)
	case !a.hasResult():
		return lookupUnasked, nil, nil
	case a.isNull():
		return lookupNowhere, nil, nil
	}
	var doc pooledTx
	if err := json.Unmarshal(a.result, &doc); err != nil {
		return lookupUnasked, nil, err
	}
	switch {
	case doc.Hash != hash.String():
		return lookupUnasked, nil, nil
	case doc.Block != nil && !isZero(*doc.Block):
		return lookupInBlock, nil, nil
	}
	return lookupInPool, &doc, nil
}

// isZero reports whether a block's hash is zero. Some nodes write a zero hash, instead of null,
// for a transaction in their pool.
func isZero(hash string) bool {
	h, ok := evmtx.ParseHash(hash)
	return ok && h == evmtx.Hash{}
}

// maxHeadAge is the age of the last block from which on a chain counts as standing still, for
// example because its sequencer is down.
const maxHeadAge = 10 * time.Minute

// describeWait describes why a transaction in the pool waits, as far as the node shows it.
func (t *pooledTx) describeWait(head block, now time.Time, heldBack bool) string {
	nonce, err := decodeQuantity(t.Nonce)
	limit := hexBig(cmp.Or(t.FeeCap, t.Price))
	if err != nil || limit == nil {
		return ""
	}
	text := fmt.Sprintf("nonce %d, at most %s gwei for a unit of gas", nonce, gwei(limit))
	if head.baseFee != nil {
		text += fmt.Sprintf("; the base fee of block %d is %s gwei", head.number, gwei(head.baseFee))
	}
	if price := hexBig(t.Blob); price != nil {
		text += fmt.Sprintf("; at most %s gwei for a unit of blob gas", gwei(price))
	}
	if age := now.Sub(head.timestamp); !head.timestamp.IsZero() && age > maxHeadAge {
		text += fmt.Sprintf("; the last block is %s old", age.Round(time.Second))
	}
	if heldBack {
		text += "; the node holds it back from its blocks, though no nonce is missing before it"
	}
	return text
}

// gwei returns an amount of wei as text in gwei.
func gwei(wei *big.Int) string {
	text := new(big.Rat).SetFrac(wei, big.NewInt(1e9)).FloatString(9)
	return batch.Excerpt(strings.TrimRight(strings.TrimRight(text, "0"), "."), 80)
}

// statusOfAny returns the status of a batch from its n transactions of one nonce, of which at most
// one takes effect. A transaction without an answer leaves the status open, unless another one was
// executed. statusOfAny is pure.
func (p *nodeAnswers) statusOfAny(first, n int) (best batch.Status, ok bool) {
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
		st, answered := p.statusOf(i)
		if ok = ok && answered; answered && (best.Reported == 0 || rank(st.Reported) >= rank(best.Reported)) {
			best = st
		}
	}
	return best, ok || rank(best.Reported) == 3
}

func (p *nodeAnswers) statusOf(i int) (batch.Status, bool) {
	r := p.receipts[i]
	switch {
	case r != nil && p.isBehind(r.block.number):
		return batch.Status{}, false // neither deep nor taken back: the question is asked again
	case r != nil && !p.isDeep(r.block.number):
		return batch.Status{Reported: batch.ReportedValid}, true
	case r != nil && !p.linkedBlocks.has(r.block):
		return batch.Status{}, false // of another chain than the view, or not linked to it: the question is asked again
	case r != nil && r.isReverted:
		return batch.Status{Reported: batch.ReportedInvalid, Receipts: []batch.Receipt{r.asBatch()}, Message: r.reason()}, true
	case r != nil:
		return batch.Status{Reported: batch.ReportedCommitted, Receipts: []batch.Receipt{r.asBatch()}}, true
	case p.lookups[i] == lookupInPool && p.isBehindGap(i) && p.isAnswered[i]:
		// The missing nonce may be that of an earlier batch of the lane whose transaction was
		// lost. That batch is sent again only once no batch behind it is under way.
		return batch.Status{Reported: batch.ReportedUnknown}, true
	case p.lookups[i] == lookupInPool && !p.isBehindGap(i):
		return batch.Status{Reported: batch.ReportedPending, Message: p.pooledTxs[i].describeWait(p.head, p.beganAt, p.isHeldBack(i))}, true
	case p.lookups[i] == lookupNowhere && p.isAnswered[i]:
		return batch.Status{Reported: batch.ReportedUnknown}, true
	}
	return batch.Status{}, false
}
