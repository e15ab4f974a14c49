package evm

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// recentBlocks remembers the last blocks of a node, each with the hashes of its transactions, and
// which transactions the node has shown in its pool. Such a transaction is Pending, without
// another question about it, while no block since then has it, as far as these blocks follow one
// another up to the head of a view. So a question about a hundred transactions asks for one block,
// and then for the receipts of those that the block has.
//
// A list proves nothing: a transaction in a list is then asked for by its receipt. Other
// transactions are not asked for, but only for a short time, so a node that leaves a transaction
// out of a list delays that transaction's status by that time.
type recentBlocks struct {
	mu        sync.Mutex
	blocks    map[evmtx.Hash]*listedBlock
	order     []evmtx.Hash // the blocks' hashes, the first one remembered first
	txCount   int          // number of transactions in the lists of all blocks
	head      *listedBlock // the head of the last view; nil if its list is not known
	sightings map[evmtx.Hash]sighting
}

// listedBlock is a block with the hashes of its transactions.
type listedBlock struct {
	number       uint64
	hash, parent evmtx.Hash
	txHashes     map[evmtx.Hash]struct{}
}

// sighting is a transaction that a node has shown in its pool, with the head of the node at that
// time.
type sighting struct {
	seenAt time.Time
	head   *listedBlock
	tx     *pooledTx
}

const (
	maxListedBlocks = 64     // blocks
	maxListedTxs    = 50_000 // number of transactions in the lists of all blocks
	maxSightings    = 16_384
	maxGapBlocks    = 16 // how many blocks one question asks for, to close the gap to the remembered blocks
	sightingShare   = 10 // a sighting counts for Grace/sightingShare: if it counted for all of Options.Grace, "no trace" would mean nothing
)

// readTxList reads the block's list of transaction hashes. It returns nil if the block has no such
// list, or no parent.
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

// add remembers a block that has a list of transactions, and returns that list; nil for a block
// without one.
func (r *recentBlocks) add(b block, head bool) *listedBlock {
	r.mu.Lock()
	l := r.blocks[b.hash]
	r.mu.Unlock()
	if l == nil {
		l = b.readTxList() // before the lock is taken again, because this takes time
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

// lastHead returns the head of the last view, for a sighting after that view. It is nil if the
// list of that head is not known.
func (r *recentBlocks) lastHead() *listedBlock {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

// chainFrom returns the remembered blocks from head downwards that follow one another without a
// gap.
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

// highestBelow returns the height of the highest remembered block that is not above this height.
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

// notePooled remembers the sighting w of a transaction in the node's pool.
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

// sightingsOf returns those sightings of the transactions that are younger than fresh. For other
// transactions it returns the zero value, whose head is nil.
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

// sightingState says what the blocks since a sighting show of its transaction.
type sightingState uint8

const (
	sightingUnread sightingState = iota // a block that was not read may have it, or the head of the sighting is not on the view's chain
	sightingListed                      // a block since the sighting has it
	sightingAbsent                      // no block since the sighting has it
)

// findIn looks for a transaction in the blocks of chain, from a view's head down to the head of
// the sighting. It looks into that last block, too, since a node may show in its pool a
// transaction that is in its last block.
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
