package evm

import (
	"context"
	"sync"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// blocksPerSearch is how many blocks one status query or Resolve reads.
const blocksPerSearch = 32

// searchBlocks reads the blocks after the height free, up to the last deep block, and returns the
// height of the block that used the nonce. One call reads some of them, and the next call goes on
// from there, because blocks that are linked to a deep block do not change. It skips blocks that
// the node does not have, such as old blocks that the node has removed: only a block's content is
// a proof. If it has skipped any, it begins again at the end, since another node may have them.
func (f *nonceUseFinder) searchBlocks(ctx context.Context, v view, free uint64) (height uint64, found bool, err error) {
	if free == unknownHeight {
		return 0, false, nil
	}
	deep := v.deep.number
	from := f.searches.lastRead(f.sender, f.nonce, free) + 1
	last := min(deep, from+blocksPerSearch-1)
	if from > deep {
		f.searches.restart(f.sender, f.nonce)
		return 0, false, nil
	}
	if err := f.linkDown(ctx, f.op, f.endpoint, &blockDescent{linkedBlocks: v.linkedBlocks}, from); err != nil {
		return 0, false, err
	}
	var requests []request
	for h := from; h <= last; h++ {
		requests = append(requests, request{"eth_getBlockByNumber", []any{hexQuantity(h), true}})
	}
	for len(requests) > 0 { // whole blocks are large, so only a few are asked for at a time
		part := requests[:min(len(requests), blocksPerArray)]
		answers, err := f.ask(ctx, f.op, f.endpoint, part)
		if err != nil {
			return 0, false, dlt.At(f.endpoint.shownAddress, f.asLedgerError(f.op, err))
		}
		for _, a := range answers {
			if !a.isNull() {
				u, found, err := f.findUseIn(a, from)
				if err != nil || !v.linkedBlocks.has(u.block) { // the block is of another chain, or not linked yet
					return 0, false, err
				}
				if found {
					return from, true, nil
				}
			}
			f.searches.noteRead(f.sender, f.nonce, from, a.isNull())
			from++
		}
		requests = requests[len(part):]
	}
	if from > deep {
		f.searches.restart(f.sender, f.nonce)
	}
	return 0, false, nil
}

const blocksPerArray = 8

// nonceSearches remembers, for each nonce, up to which height the blocks were searched for its
// use.
type nonceSearches struct {
	mu      sync.Mutex
	byNonce map[searchKey]searchState
}

type searchState struct {
	readHeight uint64
	hasGaps    bool // true if blocks below readHeight were missing
	// Counts after linked blocks show that the nonce was still free after the block at freeHeight,
	// and used after the block at usedHeight.
	freeHeight, usedHeight uint64
	isFree, isUsed         bool
}

type searchKey struct {
	sender evmtx.Address
	nonce  uint64
}

// lastRead returns the last height that was read, but at least height.
func (s *nonceSearches) lastRead(a evmtx.Address, nonce, height uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(height, s.byNonce[searchKey{a, nonce}].readHeight)
}

func (s *nonceSearches) noteRead(a evmtx.Address, nonce, height uint64, gap bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(a, nonce, func(r *searchState) { r.readHeight, r.hasGaps = height, gap || r.hasGaps })
}

// update changes the state of one nonce by f. The caller holds the lock.
func (s *nonceSearches) update(a evmtx.Address, nonce uint64, f func(*searchState)) {
	key := searchKey{a, nonce}
	r, there := s.byNonce[key]
	if s.byNonce == nil || !there && len(s.byNonce) >= maxNonces {
		s.byNonce = map[searchKey]searchState{}
	}
	f(&r)
	s.byNonce[key] = r
}

// noteCount remembers the account's next nonce after a linked block.
func (s *nonceSearches) noteCount(a evmtx.Address, nonce, height, next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(a, nonce, func(r *searchState) {
		switch {
		case next > nonce && (!r.isUsed || height < r.usedHeight):
			r.usedHeight, r.isUsed = height, true
		case next <= nonce && (!r.isFree || height > r.freeHeight):
			r.freeHeight, r.isFree = height, true
		}
	})
}

// bounds returns the heights of the linked blocks between which the nonce was used. known is false
// if no lower bound is known.
func (s *nonceSearches) bounds(a evmtx.Address, nonce uint64) (free uint64, known bool, used uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byNonce[searchKey{a, nonce}]
	if !r.isUsed {
		r.usedHeight = unknownHeight
	}
	return r.freeHeight, r.isFree && r.freeHeight < r.usedHeight, r.usedHeight
}

func (s *nonceSearches) forgetCounts(a evmtx.Address, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(a, nonce, func(r *searchState) { r.freeHeight, r.usedHeight, r.isFree, r.isUsed = 0, 0, false, false })
}

// restart forgets how far the blocks were read, if blocks were missing.
func (s *nonceSearches) restart(a evmtx.Address, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNonce[searchKey{a, nonce}].hasGaps {
		s.update(a, nonce, func(r *searchState) { r.readHeight, r.hasGaps = 0, false })
	}
}
