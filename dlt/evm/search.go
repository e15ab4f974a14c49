package evm

import (
	"context"
	"sync"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// searchAtOnce is how many blocks one question reads.
const searchAtOnce = 32

// search reads the blocks after a height, up to the last deep one, and returns the height of the
// block that used the nonce. It reads some in each call, and goes on where it ended, because
// blocks that are linked to a deep one stay. It passes over blocks that the node does not have, as
// old ones that it has removed: only what stands in a block is a proof. At the end it begins anew
// where it has passed over some, since another node may have them.
func (f *finder) search(ctx context.Context, v view, free uint64) (height uint64, found bool, err error) {
	if free == unknownHeight {
		return 0, false, nil
	}
	deep := v.deep.number
	from := f.searched.after(f.sender, f.nonce, free) + 1
	last := min(deep, from+searchAtOnce-1)
	if from > deep {
		f.searched.again(f.sender, f.nonce)
		return 0, false, nil
	}
	if err := f.link(ctx, f.op, f.e, &linking{line: v.line}, from); err != nil {
		return 0, false, err
	}
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
				u, found, err := f.userIn(a, from)
				if err != nil || !v.line.has(u.block) { // another chain's, or not linked yet
					return 0, false, err
				}
				if found {
					return from, true, nil
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
	// The nonce was used after block free, and not after block used, by counts that name linked
	// blocks.
	free, used     uint64
	isFree, isUsed bool
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
	s.change(a, nonce, func(r *reached) { r.height, r.gaps = height, gap || r.gaps })
}

// change changes the memory. The caller holds the lock.
func (s *searched) change(a evmtx.Address, nonce uint64, f func(*reached)) {
	key := searchedFor{a, nonce}
	r, there := s.by[key]
	if s.by == nil || !there && len(s.by) >= maxNonces {
		s.by = map[searchedFor]reached{}
	}
	f(&r)
	s.by[key] = r
}

// counted remembers the account's next nonce after a linked block.
func (s *searched) counted(a evmtx.Address, nonce, height, next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(a, nonce, func(r *reached) {
		switch {
		case next > nonce && (!r.isUsed || height < r.used):
			r.used, r.isUsed = height, true
		case next <= nonce && (!r.isFree || height > r.free):
			r.free, r.isFree = height, true
		}
	})
}

// between returns between which linked blocks the nonce was used, as far as that is known.
func (s *searched) between(a evmtx.Address, nonce uint64) (free uint64, known bool, used uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.by[searchedFor{a, nonce}]
	if !r.isUsed {
		r.used = unknownHeight
	}
	return r.free, r.isFree && r.free < r.used, r.used
}

func (s *searched) forgetCounts(a evmtx.Address, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(a, nonce, func(r *reached) { r.free, r.used, r.isFree, r.isUsed = 0, 0, false, false })
}

// again forgets the height where blocks were missing.
func (s *searched) again(a evmtx.Address, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[searchedFor{a, nonce}].gaps {
		s.change(a, nonce, func(r *reached) { r.height, r.gaps = 0, false })
	}
}
