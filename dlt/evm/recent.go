package evm

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// recentBlocks remembers the last blocks of a node, each with the hashes of its transactions, and
// which transactions the node has shown in its pool. While blocks that follow one another, up to
// the head of a view, do not have such a transaction, it is Pending without another question about
// it: a question about a hundred transactions asks for one block, and then for the receipts of
// those that the block has.
//
// A list proves nothing. A listed transaction is asked for by its receipt. Others are not asked
// for, for a short time only: a node that leaves something out of a list delays its status by that
// time.
type recentBlocks struct {
	mu        sync.Mutex
	blocks    map[evmtx.Hash]*listedBlock
	order     []evmtx.Hash // of the blocks, the oldest in memory first
	txCount   int          // in all of them
	head      *listedBlock // of the last view; nil where its list is not known
	sightings map[evmtx.Hash]sighting
}

// listedBlock is a block with the hashes of its transactions.
type listedBlock struct {
	number       uint64
	hash, parent evmtx.Hash
	txHashes     map[evmtx.Hash]struct{}
}

// sighting is a transaction that a node has shown in its pool, and the head of the node at that
// moment.
type sighting struct {
	seenAt time.Time
	head   *listedBlock
	tx     *pooledTx
}

const (
	maxListedBlocks = 64     // blocks
	maxListedTxs    = 50_000 // in the lists of all of them
	maxSightings    = 16_384
	maxGapBlocks    = 16 // blocks that one question asks for, so that those it knows follow one another
	sightingShare   = 10 // a sighting counts for a tenth of Options.Grace: for all of Grace "no trace" would mean nothing either
)

// readTxList reads the list of a block. It returns nil without a list of hashes, or without a
// parent.
func (b block) readTxList() *listedBlock {
	var hashes []string
	if b.parent == (evmtx.Hash{}) || json.Unmarshal(b.txList, &hashes) != nil || hashes == nil {
		return nil
	}
	l := &listedBlock{number: b.number, hash: b.hash, parent: b.parent, txHashes: make(map[evmtx.Hash]struct{}, len(hashes))}
	for _, text := range hashes {
		h, ok := evmtx.ParseHash(text)
		if !ok {
			return nil
		}
		l.txHashes[h] = struct{}{}
	}
	return l
}

// add remembers a block that has a list of transactions, and returns it; nil for a block without
// one.
func (r *recentBlocks) add(b block, head bool) *listedBlock {
	r.mu.Lock()
	l := r.blocks[b.hash]
	r.mu.Unlock()
	if l == nil {
		l = b.readTxList() // without the lock, since it takes its time
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if head {
		r.head = l
	}
	if l == nil || r.blocks[b.hash] != nil || len(l.txHashes) > maxListedTxs {
		return l
	}
	if r.blocks == nil {
		r.blocks = map[evmtx.Hash]*listedBlock{}
	}
	r.blocks[b.hash], r.order, r.txCount = l, append(r.order, b.hash), r.txCount+len(l.txHashes)
	for len(r.order) > maxListedBlocks || r.txCount > maxListedTxs {
		r.txCount -= len(r.blocks[r.order[0]].txHashes)
		delete(r.blocks, r.order[0])
		r.order = r.order[1:]
	}
	return l
}

// lastHead returns the head of the last view, for a sighting after that view. It is nil where
// the list of that block is not known.
func (r *recentBlocks) lastHead() *listedBlock {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

// chainFrom returns the blocks down from a head that follow one another, without a gap.
func (r *recentBlocks) chainFrom(head *listedBlock) (all []*listedBlock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := head; l != nil && len(all) < maxListedBlocks; l = r.blocks[l.parent] {
		if len(all) > 0 && l.number+1 != all[len(all)-1].number {
			break
		}
		all = append(all, l)
	}
	return all
}

// highestBelow returns the highest block that is known at this height or below.
func (r *recentBlocks) highestBelow(height uint64) (found uint64) {
	found = unknownHeight
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.blocks {
		if l.number <= height && (found == unknownHeight || l.number > found) {
			found = l.number
		}
	}
	return found
}

// notePooled remembers that the node has a transaction in its pool, after a view with this head.
func (r *recentBlocks) notePooled(h evmtx.Hash, w sighting) {
	if w.head == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sightings == nil || len(r.sightings) >= maxSightings {
		r.sightings = map[evmtx.Hash]sighting{}
	}
	r.sightings[h] = w
}

// sightingsOf returns the sightings of transactions that are younger than fresh. A transaction
// without one has the zero value, whose head is nil.
func (r *recentBlocks) sightingsOf(hashes []evmtx.Hash, now time.Time, fresh time.Duration) []sighting {
	out := make([]sighting, len(hashes))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range hashes {
		if w, ok := r.sightings[h]; ok && now.Sub(w.seenAt) < fresh {
			out[i] = w
		}
	}
	return out
}

func (r *recentBlocks) forget(h evmtx.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sightings, h)
}

// sightingState says where a transaction is now that a node has shown in its pool.
type sightingState uint8

const (
	sightingUnread sightingState = iota // a block that was not read may have it, or the head of the sighting is no longer on the view's chain
	sightingListed                      // a block since the sighting has it
	sightingAbsent                      // no block since the sighting has it
)

// findIn looks for a transaction in the blocks down from a view's head. The head of the
// sighting counts, too: a node may show in its pool a transaction that its last block has.
func (w sighting) findIn(chain []*listedBlock, h evmtx.Hash) sightingState {
	if len(chain) == 0 || chain[0].number < w.head.number {
		return sightingUnread
	}
	n := chain[0].number - w.head.number
	if n >= uint64(len(chain)) || chain[n].hash != w.head.hash {
		return sightingUnread
	}
	for _, l := range chain[:n+1] {
		if _, ok := l.txHashes[h]; ok {
			return sightingListed
		}
	}
	return sightingAbsent
}
